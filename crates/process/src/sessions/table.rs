//! The sessions of a shard, by number and by the adapter that they have open: when an adapter goes, the sessions of
//! others are not looked at.

use std::collections::BTreeSet;

use vrdma_adapter::Slots;
use vrdma_switch::PortId;

use super::SessionId;
use crate::limits;
use crate::session::Session;

/// The sessions of a shard.
#[derive(Default)]
pub(super) struct Table {
    sessions: Slots<Session>,
    /// Sessions by the adapter that they have open; no more than there are sessions.
    open: BTreeSet<(PortId, SessionId)>,
    /// How many sessions were looked at.
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

impl Table {
    /// Adds a session; drops it if there are too many.
    pub(super) fn put(&mut self, session: Session) -> Option<SessionId> {
        let number = self.sessions.vacant(0);
        if number >= limits::SESSIONS {
            return None;
        }
        let id = SessionId(number);
        self.sessions.put(number, session);
        self.note_opened(id);
        Some(id)
    }

    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.sessions.get(id.0)
    }

    /// Returns a session that may open an adapter: [`note_opened`](Self::note_opened) is to be called afterwards.
    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(id.0)
    }

    /// Indexes the session by the adapter that it has open, if it has one.
    pub(super) fn note_opened(&mut self, id: SessionId) {
        let open = self.get(id).and_then(|session| session.open);
        if let Some((port, _)) = open {
            self.open.insert((port, id));
        }
    }

    pub(super) fn take(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.take(id.0)?;
        if let Some((port, _)) = session.open {
            self.open.remove(&(port, id));
        }
        Some(session)
    }

    /// The sessions that have an adapter open.
    pub(super) fn at(&self, port: PortId) -> impl Iterator<Item = (SessionId, &Session)> {
        let all = (port, SessionId(0))..=(port, SessionId(u32::MAX));
        let ids = self.open.range(all).map(|(_, id)| *id);
        ids.filter_map(|id| Some((id, self.get(id)?)))
    }

    /// Takes out the sessions that have an adapter open.
    pub(super) fn take_at(&mut self, port: PortId) -> Vec<Session> {
        let ids: Vec<SessionId> = self.at(port).map(|(id, _)| id).collect();
        ids.into_iter().filter_map(|id| self.take(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use vrdma_verbs::object::Owner;

    use super::*;
    use crate::caller::Caller;
    use crate::receive::ForeignFile;
    use crate::users::{SessionSlot, Users};

    /// Makes a session of a user of its own.
    fn session(number: u32, open: Option<PortId>) -> Session {
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let user = Users::default().of(number);
        Session {
            socket: ForeignFile::new(pair.unwrap().0, Arc::clone(&user.tenant)),
            caller: Caller::of(number, number, &[]),
            place: SessionSlot::take(user).unwrap(),
            answered: None,
            open: open.map(|port| (port, Owner(number))),
        }
    }

    const OWN: PortId = PortId(1);
    const OTHER: PortId = PortId(2);

    fn owners(sessions: &[Session]) -> Vec<u32> {
        let open = sessions.iter().filter_map(|session| session.open);
        open.map(|(_, owner)| owner.0).collect()
    }

    /// Returns how many sessions are looked at when an adapter goes, next to others with another adapter.
    fn going(others: u32) -> u64 {
        let mut table = Table::default();
        for number in 0..others {
            table.put(session(100 + number, Some(OTHER))).unwrap();
        }
        for number in 1..=3 {
            table.put(session(number, Some(OWN))).unwrap();
        }
        let before = table.looks.get();
        assert_eq!(table.at(OWN).count(), 3);
        assert_eq!(owners(&table.take_at(OWN)), [1, 2, 3]);
        assert!(table.at(OWN).next().is_none());
        let looks = table.looks.get() - before;
        assert_eq!(table.at(OTHER).count(), others as usize);
        looks
    }

    #[test]
    fn an_adapter_that_goes_concerns_its_own_sessions() {
        assert_eq!(going(1), going(200));
    }

    #[test]
    fn a_session_is_found_at_the_adapter_that_it_opens_until_it_ends() {
        let mut table = Table::default();
        let id = table.put(session(1, None)).unwrap();
        assert!(table.at(OWN).next().is_none());
        table.get_mut(id).unwrap().open = Some((OWN, Owner(1)));
        table.note_opened(id);
        assert_eq!(table.at(OWN).count(), 1);
        assert!(table.take(id).is_some());
        assert!(table.open.is_empty());
    }
}
