//! The records that another manager needs to go on in place of this one: one for each connection and question.
//!
//! ```text
//!   command, datagram, time ──► changed ── take_changed, save ──► records ── resume ──► another manager
//! ```
//! The owner adds its listeners again before their calls are resumed. Times are not saved: every wait begins anew with
//! [`Cm::resume`], and has as many repetitions left as before. The caller keeps datagrams that were not sent yet
//! ([`Cm::unsent`]); lost ones are repeated as on a wire.
//!
//! A record is not trusted: it is refused unless a manager could have written it for this adapter.

mod connection;
mod question;
mod record;

use alloc::vec::Vec;
use core::time::Duration;

use prost::Message as _;
use vrdma_wire::cm::{CmMad, CommId};
use vrdma_wire::{Bits, Format, Gid, MAD_LEN};

use crate::machine::{Cm, Outgoing};
use crate::terms::{Ends, Link, Side};
use record::What;

/// Reason why a record cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unusable {
    /// No manager writes such a record.
    #[error("the record of a connection is damaged")]
    Damaged,
    /// Its address is not the adapter's.
    #[error("the record of a connection is of an address that the adapter does not have")]
    Elsewhere,
    /// Its name is taken, or there is no room.
    #[error("there is no room for a connection")]
    Full,
}

impl Cm {
    /// Tracks changes from now on, for [`Cm::take_changed`].
    pub fn track(&mut self) {
        self.store.changed.track();
        self.sidr.changed.track();
    }

    /// Takes the names of connections and questions that may have changed since the last call, including those that are
    /// gone.
    pub fn take_changed(&mut self) -> Vec<CommId> {
        let mut changed = self.store.changed.take();
        changed.append(&mut self.sidr.changed.take());
        changed.into_iter().collect()
    }

    /// Returns the names of all connections and questions.
    pub fn names(&self) -> impl Iterator<Item = CommId> {
        self.store.names().chain(self.sidr.names())
    }

    /// Returns the record of a connection or question; `None` if it is gone.
    pub fn save(&self, id: CommId) -> Option<Vec<u8>> {
        let what = match self.store.get(id) {
            Some(connection) => What::Connection(self.save_connection(connection)),
            None => What::Question(self.sidr.save(id)?),
        };
        Some(record::Saved { what: Some(what) }.encode_to_vec())
    }

    /// Goes on with a connection or question of an adapter with the addresses `own`.
    ///
    /// # Errors
    /// [`Unusable`]; nothing has changed then.
    pub fn resume(&mut self, bytes: &[u8], own: &[Gid], now: Duration) -> Result<CommId, Unusable> {
        let saved = record::Saved::decode(bytes).map_err(|_| Unusable::Damaged)?;
        match saved.what.ok_or(Unusable::Damaged)? {
            What::Connection(record) => self.resume_connection(&record, own, now),
            What::Question(record) => self.resume_question(&record, own, now),
        }
    }

    /// Returns the datagrams that [`Cm::next_outgoing`] has not given yet, each with its number in the order of all.
    pub fn unsent(&self) -> impl Iterator<Item = (u64, &Outgoing)> {
        (self.sent..).zip(&self.outgoing)
    }

    /// Returns how many datagrams [`Cm::next_outgoing`] has given.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends a datagram that another manager has not sent, or may not have sent.
    pub fn send_again(&mut self, outgoing: Outgoing) {
        self.outgoing.push_back(outgoing);
    }

    /// Whether there is a connection or question with that name.
    pub fn knows(&self, id: CommId) -> bool {
        self.store.contains(id) || self.sidr.contains(id)
    }

    fn is_free(&self, id: CommId) -> bool {
        let room = !self.store.is_full() && !self.sidr.is_full();
        room && id.0 != 0 && !self.knows(id)
    }
}

impl Outgoing {
    /// Parses the same from its bytes, without the zeros at their end.
    pub fn parse(ends: Ends, bytes: &[u8]) -> Option<Self> {
        let mad = datagram(bytes)?;
        Some(Self { ends, mad })
    }
}

impl Side {
    /// Encodes it as a record.
    pub fn save(&self) -> Vec<u8> {
        connection::save_side(self).encode_to_vec()
    }

    /// Parses a record; `None` if it is damaged.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        connection::side(&record::Side::decode(bytes).ok()?).ok()
    }
}

impl Link {
    /// Encodes it as a record.
    pub fn save(&self) -> Vec<u8> {
        connection::save_link(self).encode_to_vec()
    }

    /// Parses a record; `None` if it is damaged.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        connection::link(&record::Link::decode(bytes).ok()?).ok()
    }
}

/// Returns the bytes of a datagram without the zeros at their end.
fn trimmed(mad: &CmMad) -> Vec<u8> {
    let mut bytes = [0; MAD_LEN];
    mad.emit(&mut bytes);
    let last = bytes.iter().rposition(|byte| *byte != 0);
    bytes[..last.map_or(0, |last| last + 1)].to_vec()
}

fn datagram(bytes: &[u8]) -> Option<CmMad> {
    let mut whole = [0; MAD_LEN];
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    CmMad::parse(&whole).ok()
}

fn save_ends(ends: &Ends) -> record::Ends {
    record::Ends {
        local: ends.local.0.to_vec(),
        remote: ends.remote.0.to_vec(),
    }
}

fn ends(record: &record::Ends, own: &[Gid]) -> Result<Ends, Unusable> {
    let gid = |bytes: &[u8]| {
        let bytes = bytes.try_into().map_err(|_| Unusable::Damaged)?;
        Ok(Gid(bytes))
    };
    let ends = Ends {
        local: gid(&record.local)?,
        remote: gid(&record.remote)?,
    };
    if own.contains(&ends.local) {
        Ok(ends)
    } else {
        Err(Unusable::Elsewhere)
    }
}

fn byte(number: u32) -> Result<u8, Unusable> {
    number.try_into().map_err(|_| Unusable::Damaged)
}

fn bits<const N: u32>(number: u32) -> Result<Bits<N>, Unusable> {
    Bits::new(byte(number)?).ok_or(Unusable::Damaged)
}
