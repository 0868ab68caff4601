//! Addresses: which adapter, which port, which way.

use std::time::Duration;

use rustix::io::Errno;
use vrdma_cm::MAX_BACKLOG;
use vrdma_provider::cm::{
    Bind, Bound, Endpoint, EventKind, Listen, ResolveAddress, ResolveRoute, family,
};
use vrdma_switch::PortId;
use vrdma_wire::Gid;

use super::address::{Place, place};
use super::handler::{Handler, errno};
use super::identifier::Stage;
use super::ports::{Claim, free_at_all};
use super::scope::Scope;

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
            // The loopback address is no adapter's: as with Linux, it stands for all of them.
            Place::Any | Place::Loopback => (None, None),
            Place::At(gid) => self.with_address(gid)?,
            Place::Multicast(_) => return Err(Errno::INVAL),
        };
        let held = match adapter {
            Some(port) => vec![port],
            None => self.usable(),
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

    /// An identifier has its port at these adapters.
    pub(super) fn hold(&mut self, id: u64, at: Vec<PortId>) {
        let owner = self.owner(id);
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        for port in &at {
            self.owners.tie(*port, owner);
        }
        if identifier.adapter.is_none() && identifier.claim.is_some_and(|it| it.address.is_none()) {
            self.owners.widen(owner);
        }
        identifier.holds = at.into_iter().collect();
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

    /// Takes a port at all of the adapters, or at none.
    pub(super) fn take_port(
        &mut self,
        id: u64,
        wanted: u16,
        claim: &Claim,
        at: &[PortId],
    ) -> Result<u16, Errno> {
        let space = self.client.get(id)?.space;
        let number = match wanted {
            0 => self.free_port(space, at)?,
            number => number,
        };
        for port in at {
            if !self.adapter(*port)?.ports.allows(space, number, claim) {
                return Err(Errno::ADDRINUSE);
            }
        }
        for port in at {
            self.adapter(*port)?.ports.take(space, number, *claim);
        }
        Ok(number)
    }

    /// A port that is free at all of the adapters.
    fn free_port(&mut self, space: u32, at: &[PortId]) -> Result<u16, Errno> {
        let first = *at.first().ok_or(Errno::NODEV)?;
        let begin = self.adapter(first)?.ports.next();
        let all = at.iter().filter_map(|port| self.adapters.get(*port));
        let all: Vec<_> = all.map(|adapter| &adapter.ports).collect();
        let number = free_at_all(&all, space, begin).ok_or(Errno::ADDRINUSE)?;
        self.adapter(first)?.ports.go_on_behind(number);
        Ok(number)
    }

    /// Fixes the adapter and the own address.
    pub(super) fn fix_source(&mut self, id: u64, port: PortId, gid: Gid) -> Result<(), Errno> {
        let adapter = self.adapter(port)?;
        let index = adapter.index_of(gid).ok_or(Errno::ADDRNOTAVAIL)?;
        let (name, mtu) = (adapter.spec.name, adapter.spec.mtu);
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
            Place::At(gid) => (gid, false),
            Place::Multicast(gid) => (gid, true),
            Place::Loopback | Place::Any => (sgid, true),
        };
        let patience = Duration::from_millis(resolve.timeout.into());
        let search = self.search(id, resolve.remote, (port, sgid, dgid), patience)?;
        if is_known {
            self.found(&search);
        }
        Ok(())
    }

    /// The adapter and own address from which a place is reached.
    fn way(&mut self, id: u64, remote: Place) -> Result<(PortId, Gid), Errno> {
        let identifier = self.client.get(id)?;
        if let Some(port) = identifier.adapter {
            return Ok((port, Gid(identifier.route.sgid)));
        }
        let to = match remote {
            Place::At(gid) | Place::Multicast(gid) => gid,
            Place::Loopback | Place::Any => Gid::default(),
        };
        // The adapter that has the address itself, else the one whose address is most like it.
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
        let adapters = identifier.holds.clone();
        for port in adapters {
            if let Err(error) = self.listen_at(id, port) {
                self.stop_listening(id);
                return Err(error);
            }
        }
        self.client.get(id)?.stage = Stage::Listening;
        self.bound(id)
    }

    pub(super) fn listen_at(&mut self, id: u64, port: PortId) -> Result<(), Errno> {
        let (at, backlog) = self.client.get(id)?.listens.ok_or(Errno::INVAL)?;
        let listener = self
            .adapter(port)?
            .make_cm()
            .listen(at, backlog)
            .map_err(errno)?;
        let owner = self.owner(id);
        self.owners.listeners.insert((port, listener), owner);
        self.client.get(id)?.listeners.insert(port, listener);
        Ok(())
    }

    pub(super) fn stop_listening(&mut self, id: u64) {
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        identifier.listens = None;
        for (port, listener) in std::mem::take(&mut identifier.listeners) {
            self.owners.listeners.remove(&(port, listener));
            if let Some(adapter) = self.adapters.get_mut(port) {
                // It was added by this identifier, so it is there.
                let _removed = adapter.make_cm().unlisten(listener);
            }
        }
    }

    /// An adapter has come: an identifier that is bound to all adapters is bound to it too, unless somebody has its
    /// port there.
    pub(super) fn spread(&mut self, id: u64, port: PortId) {
        // Who is refused here listens at the others as before.
        let _refused = self.spread_to(id, port);
    }

    fn spread_to(&mut self, id: u64, port: PortId) -> Result<(), Errno> {
        let identifier = self.client.get(id)?;
        if !identifier.is_wide() {
            return Ok(());
        }
        let number = identifier.route.local.port;
        let claim = identifier.claim.ok_or(Errno::INVAL)?;
        self.take_port(id, number, &claim, &[port])?;
        let identifier = self.client.get(id)?;
        identifier.holds.insert(port);
        let listens = identifier.stage == Stage::Listening;
        self.tie(id, port);
        match listens {
            true => self.listen_at(id, port),
            false => Ok(()),
        }
    }
}
