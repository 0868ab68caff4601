//! One request of one client, with everything that it may change.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rustix::io::Errno;
use vrdma_cm::Refused;
use vrdma_provider::cm::{
    Bound, CreateId, Event, EventKind, GetEvent, IdReply, Migrate, SetOption, option, qp_type,
    space,
};
use vrdma_switch::PortId;
use vrdma_wire::Qpn;

use super::adapter::Adapter;
use super::adapters::Adapters;
use super::client::{Client, ClientId};
use super::identifier::{Identifier, Stage};
use super::owners::{Owner, Owners};
use super::search::Searches;
use crate::admission::Admission;
use crate::users::Users;

/// Generator of numbers that peers see; none of them gives away the next.
pub(super) struct Random(ChaCha8Rng);

impl Random {
    pub(super) fn from_seed(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// The state that serving one request needs.
pub(super) struct Handler<'a> {
    pub(super) key: ClientId,
    pub(super) client: &'a mut Client,
    pub(super) adapters: &'a mut Adapters,
    pub(super) owners: &'a mut Owners,
    pub(super) searches: &'a mut Searches,
    pub(super) random: &'a mut Random,
    pub(super) users: &'a Users,
    pub(super) admission: &'a Admission,
    pub(super) now: Duration,
}

impl Handler<'_> {
    pub(super) fn create(&mut self, create: &CreateId) -> Result<IdReply, Errno> {
        if !matches!(create.space, space::TCP | space::UDP) {
            return Err(Errno::PROTONOSUPPORT);
        }
        if !matches!(create.qp_type, qp_type::RC | qp_type::UC | qp_type::UD) {
            return Err(Errno::INVAL);
        }
        let identifier = Identifier::new(create.channel, create.space, create.qp_type);
        let id = self.client.add(identifier)?;
        Ok(IdReply { id })
    }

    pub(super) fn migrate(&mut self, migrate: &Migrate) -> Result<(), Errno> {
        self.client.migrate(migrate.id, migrate.channel)
    }

    pub(super) fn event(&mut self, get: &GetEvent) -> Result<Event, Errno> {
        self.client.next_event(get.channel)
    }

    pub(super) fn set_option(&mut self, set: &SetOption) -> Result<(), Errno> {
        let identifier = self.client.get(set.id)?;
        let byte = u8::try_from(set.value);
        match set.option {
            option::TYPE_OF_SERVICE => {
                identifier.options.traffic_class = byte.map_err(|_| Errno::INVAL)?;
                identifier.route.traffic_class = identifier.options.traffic_class;
            }
            option::REUSE_ADDRESS if identifier.stage == Stage::Idle => {
                identifier.options.reuse_address = set.value != 0;
            }
            option::FAMILY_ONLY if identifier.stage == Stage::Idle => {
                identifier.options.family_only = set.value != 0;
            }
            option::ACK_TIMEOUT => {
                let code = byte.ok().filter(|code| *code < 32);
                identifier.options.ack_timeout = code.ok_or(Errno::INVAL)?;
            }
            option::REUSE_ADDRESS | option::FAMILY_ONLY => return Err(Errno::INVAL),
            _ => return Err(Errno::NOSYS),
        }
        Ok(())
    }

    pub(super) fn bound(&mut self, id: u64) -> Result<Bound, Errno> {
        let route = self.client.get(id)?.route;
        Ok(Bound { route })
    }

    /// Checks that a queue pair is the client's own: peers may be told of no other.
    ///
    /// # Errors
    /// `INVAL`: there is no such number. `PERM`: the queue pair is of another user.
    pub(super) fn own_qp(&self, port: PortId, number: u32) -> Result<Qpn, Errno> {
        let qpn = Qpn::new(number).ok_or(Errno::INVAL)?;
        let user = self.users.of(self.client.caller.uid);
        let owned = user.counts.queue_pairs.has(port, qpn);
        owned.then_some(qpn).ok_or(Errno::PERM)
    }

    pub(super) fn adapter(&mut self, port: PortId) -> Result<&mut Adapter, Errno> {
        self.adapters.get_mut(port).ok_or(Errno::NODEV)
    }

    pub(super) fn owner(&self, id: u64) -> Owner {
        Owner {
            client: self.key,
            id,
        }
    }

    /// Notes that an identifier uses an adapter.
    pub(super) fn tie(&mut self, id: u64, port: PortId) {
        let owner = self.owner(id);
        self.owners.tie(port, owner);
    }

    /// Reports an event that has only a kind.
    pub(super) fn tell(&mut self, id: u64, kind: EventKind) {
        self.client.tell(Event {
            id,
            kind: kind as u32,
            ..Event::default()
        });
    }
}

/// The errno for a command that was refused.
pub(super) fn errno(refused: Refused) -> Errno {
    match refused {
        Refused::Unknown | Refused::State => Errno::INVAL,
        Refused::Taken => Errno::ADDRINUSE,
        Refused::Full => Errno::NOMEM,
    }
}

/// The status of an event after a timeout.
pub(super) fn timed_out() -> i32 {
    -Errno::TIMEDOUT.raw_os_error()
}
