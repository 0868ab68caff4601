//! Addresses: the adapter, the port and the path for each.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::io::Errno;
use vrdma_cm::MAX_BACKLOG;
use vrdma_provider::cm::{
    Bind, Bound, Endpoint, EventKind, Listen, ResolveAddress, ResolveRoute, family,
};
use vrdma_switch::PortId;
use vrdma_wire::Gid;

use super::address::{AddressKind, place};
use super::handler::{Handler, errno};
use super::holding::Held;
use super::identifier::Stage;
use super::port_map::Port;
use super::ports::Claim;
use super::scope::Scope;
use super::search::Places;

impl Handler<'_> {
    pub(super) fn bind(&mut self, bind: &Bind) -> Result<Bound, Errno> {
        self.bind_to(bind.id, &bind.local)?;
        self.bound(bind.id)
    }

    fn bind_to(&mut self, id: u64, local: &Endpoint) -> Result<(), Errno> {
        if self.client.get(id)?.stage != Stage::Idle {
            return Err(Errno::INVAL);
        }
        let (adapter, sgid) = match place(local).ok_or(Errno::AFNOSUPPORT)? {
            // The loopback address belongs to no adapter: as in Linux, it stands for all of them.
            AddressKind::Any | AddressKind::Loopback => (None, None),
            AddressKind::At(gid) => self.with_address(gid)?,
            AddressKind::Multicast(_) => return Err(Errno::INVAL),
        };
        let held = match adapter {
            Some(port) => Held::At(BTreeSet::from([port])),
            None => self.all_usable(),
        };
        let options = self.client.get(id)?.options;
        let claim = Claim {
            address: sgid,
            family: local.family,
            family_only: options.family_only,
            shared: options.reuse_address,
        };
        let number = self.take_port(id, local.port, &claim, &held)?;
        let identifier = self.client.get(id)?;
        identifier.claim = Some(claim);
        identifier.route.local = Endpoint {
            port: number,
            ..*local
        };
        identifier.stage = Stage::Bound;
        self.hold(id, held);
        if let (Some(port), Some(gid)) = (adapter, sgid) {
            self.fix_source(id, port, gid)?;
        }
        Ok(())
    }

    /// Notes at which adapters an identifier holds its port.
    pub(super) fn hold(&mut self, id: u64, held: Held) {
        let owner = self.owner(id);
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        for port in held.named() {
            self.owners.tie(*port, owner);
        }
        let is_of_all = identifier.claim.is_some_and(|it| it.address.is_none());
        if is_of_all && identifier.adapter.is_none() && held != Held::Everywhere {
            self.owners.widen(owner);
        }
        identifier.holds = held;
    }

    /// All adapters that the client may use.
    pub(super) fn all_usable(&self) -> Held {
        match self.client.may_use_all() {
            true => Held::Everywhere,
            false => Held::At(self.usable().into_iter().collect()),
        }
    }

    /// Adapters that the client may use.
    pub(super) fn usable(&self) -> Vec<PortId> {
        self.adapters.usable(&self.scope()).collect()
    }

    fn scope(&self) -> Scope {
        self.client.scope(self.admission)
    }

    fn with_address(&self, gid: Gid) -> Result<(Option<PortId>, Option<Gid>), Errno> {
        let port = self.adapters.with_gid(&self.scope(), gid);
        Ok((Some(port.ok_or(Errno::ADDRNOTAVAIL)?), Some(gid)))
    }

    /// Takes a port at all adapters of `at`, or at none.
    pub(super) fn take_port(
        &mut self,
        id: u64,
        number: u16,
        claim: &Claim,
        at: &Held,
    ) -> Result<u16, Errno> {
        let space = self.client.get(id)?.space;
        self.adapters.take_port(at, Port { space, number }, claim)
    }

    /// Sets the adapter and the own address.
    pub(super) fn fix_source(&mut self, id: u64, port: PortId, gid: Gid) -> Result<(), Errno> {
        let adapter = self.adapter(port)?;
        let index = adapter.index_of(gid).ok_or(Errno::ADDRNOTAVAIL)?;
        let (name, mtu) = (adapter.spec.told_name(), adapter.spec.mtu);
        let identifier = self.client.get(id)?;
        identifier.adapter = Some(port);
        identifier.route.adapter = name;
        identifier.route.sgid = gid.0;
        identifier.route.sgid_index = index;
        identifier.route.mtu = mtu.code() as u8;
        let owner = self.owner(id);
        self.owners.narrow(owner);
        self.owners.tie(port, owner);
        Ok(())
    }

    pub(super) fn resolve_address(&mut self, resolve: &ResolveAddress) -> Result<(), Errno> {
        let id = resolve.id;
        self.client.check_events()?;
        let identifier = self.client.get(id)?;
        if !matches!(identifier.stage, Stage::Idle | Stage::Bound) {
            return Err(Errno::INVAL);
        }
        let remote = place(&resolve.remote).ok_or(Errno::AFNOSUPPORT)?;
        if identifier.stage == Stage::Idle {
            let any = Endpoint {
                family: resolve.remote.family,
                ..Endpoint::default()
            };
            let named = resolve.local.family != family::NONE;
            self.bind_to(id, if named { &resolve.local } else { &any })?;
        }
        let (port, sgid) = self.way(id, remote)?;
        let (dgid, is_known) = match remote {
            AddressKind::At(gid) => (gid, false),
            AddressKind::Multicast(gid) => (gid, true),
            AddressKind::Loopback | AddressKind::Any => (sgid, true),
        };
        let patience = Duration::from_millis(resolve.timeout.into());
        let places = Places {
            sgid,
            dgid,
            remote: resolve.remote,
        };
        let search = self.search(id, port, places, patience)?;
        if is_known {
            self.found(&search);
        }
        Ok(())
    }

    /// Finds the adapter and own address from which `remote` is reached.
    fn way(&mut self, id: u64, remote: AddressKind) -> Result<(PortId, Gid), Errno> {
        let identifier = self.client.get(id)?;
        if let Some(port) = identifier.adapter {
            return Ok((port, Gid(identifier.route.sgid)));
        }
        let to = match remote {
            AddressKind::At(gid) | AddressKind::Multicast(gid) => gid,
            AddressKind::Loopback | AddressKind::Any => Gid::default(),
        };
        // Prefer the adapter that has the address itself, then the one whose address is most like it.
        let nearest = self.adapters.nearest(&self.scope(), to);
        let port = nearest.ok_or(Errno::NODEV)?;
        let sgid = self.adapter(port)?.source_for(to);
        Ok((port, sgid))
    }

    pub(super) fn resolve_route(&mut self, resolve: &ResolveRoute) -> Result<(), Errno> {
        let identifier = self.client.get(resolve.id)?;
        if identifier.stage != Stage::AddressResolved {
            return Err(Errno::INVAL);
        }
        identifier.stage = Stage::RouteResolved;
        self.tell(resolve.id, EventKind::RouteResolved);
        Ok(())
    }

    pub(super) fn listen(&mut self, listen: &Listen) -> Result<Bound, Errno> {
        let id = listen.id;
        if self.client.get(id)?.stage == Stage::Idle {
            let any = Endpoint {
                family: family::INET,
                ..Endpoint::default()
            };
            self.bind_to(id, &any)?;
        }
        let identifier = self.client.get(id)?;
        if identifier.stage != Stage::Bound {
            return Err(Errno::INVAL);
        }
        let backlog = match listen.backlog {
            0 => MAX_BACKLOG,
            some => some,
        };
        let at = vrdma_cm::Listen {
            service: identifier.service(&identifier.route.local),
            at: identifier.listening_addresses(),
        };
        identifier.listens = Some((at, backlog));
        if let Err(error) = self.listen_where_held(id) {
            self.stop_listening(id);
            return Err(error);
        }
        self.client.get(id)?.stage = Stage::Listening;
        self.bound(id)
    }

    fn listen_where_held(&mut self, id: u64) -> Result<(), Errno> {
        let identifier = self.client.get(id)?;
        let (at, _) = identifier.listens.ok_or(Errno::INVAL)?;
        let held = identifier.holds.clone();
        if held == Held::Everywhere {
            return self.listen_everywhere(id, at);
        }
        held.named().try_for_each(|port| self.listen_at(id, *port))
    }

    /// Lets an identifier listen at one adapter.
    pub(super) fn listen_at(&mut self, id: u64, port: PortId) -> Result<(), Errno> {
        let identifier = self.client.get(id)?;
        let (at, backlog) = identifier.listens.ok_or(Errno::INVAL)?;
        let alone = (identifier.holds != Held::Everywhere).then_some(at);
        if alone.is_some() {
            self.check_alone(&at, port)?;
        }
        let listener = self
            .adapter(port)?
            .make_cm()
            .listen(at, backlog)
            .map_err(errno)?;
        let owner = self.owner(id);
        self.owners.add_listener((port, listener), owner, alone);
        self.owners.tie(port, owner);
        self.client.get(id)?.listeners.insert(port, listener);
        Ok(())
    }

    pub(super) fn stop_listening(&mut self, id: u64) {
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        let listens = identifier.listens.take();
        let listeners = std::mem::take(&mut identifier.listeners);
        if let Some((at, _)) = listens {
            self.stop_listening_everywhere(id, &at);
        }
        for (port, listener) in listeners {
            self.owners.remove_listener((port, listener));
            if let Some(adapter) = self.adapters.get_mut(port) {
                // This identifier has added the listener, so it is there.
                let _removed = adapter.make_cm().unlisten(listener);
            }
        }
    }

    /// Binds an identifier that is bound to all adapters to a new one, too, unless its port is taken there.
    pub(super) fn spread(&mut self, id: u64, port: PortId) {
        // If it is refused at this adapter, it listens at the others as before.
        let _refused = self.spread_to(id, port);
    }

    fn spread_to(&mut self, id: u64, port: PortId) -> Result<(), Errno> {
        let identifier = self.client.get(id)?;
        if !identifier.is_wide() {
            return Ok(());
        }
        let number = identifier.route.local.port;
        let claim = identifier.claim.ok_or(Errno::INVAL)?;
        self.take_port(id, number, &claim, &Held::At(BTreeSet::from([port])))?;
        let identifier = self.client.get(id)?;
        if let Held::At(ports) = &mut identifier.holds {
            ports.insert(port);
        }
        let listens = identifier.stage == Stage::Listening;
        self.tie(id, port);
        match listens {
            true => self.listen_at(id, port),
            false => Ok(()),
        }
    }
}
