//! Datagram services that need no program: their queue pair is known in advance, and SIDR requests for them are
//! answered here.
//!
//! ```text
//!   Bound ── Offer(adapter, queue pair) ──► Bound ── Listen ──► Listening ◄── question ─ a peer
//!                                                                   └──────── answer ──►
//! ```

use rustix::io::Errno;
use vrdma_cm::{PrivateData, SidrAnswer, SidrStatus};
use vrdma_provider::cm::Offer;
use vrdma_wire::{Qkey, Qpn};

use super::adapter::Connection;
use super::handler::Handler;
use super::identifier::Stage;
use super::multicast::UDP_QKEY;

/// The queue pair that SIDR requests are answered with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offered {
    pub(super) qpn: Qpn,
    pub(super) qkey: Qkey,
}

impl Handler<'_> {
    pub(super) fn offer(&mut self, offer: &Offer) -> Result<(), Errno> {
        let qkey = match offer.qkey {
            0 => UDP_QKEY,
            own => own,
        };
        let identifier = self.client.get(offer.id)?;
        if identifier.stage != Stage::Bound || !identifier.is_datagram() {
            return Err(Errno::INVAL);
        }
        let named = self.adapters.named(offer.adapter);
        let held = named.filter(|port| identifier.holds.is_at(*port));
        let port = held.ok_or(Errno::NODEV)?;
        let offered = Offered {
            qpn: self.own_qp(port, offer.qp_num)?,
            qkey: Qkey(qkey),
        };
        self.client.get(offer.id)?.offers.insert(port, offered);
        self.tie(offer.id, port);
        Ok(())
    }

    /// Answers with the offered queue pair; `false` if the listener's program answers itself.
    pub(super) fn answer_with_offer(&mut self, listener: u64, connection: Connection) -> bool {
        let Connection { port, name } = connection;
        let Ok(identifier) = self.client.get(listener) else {
            return false;
        };
        if identifier.offers.is_empty() {
            return false;
        }
        let Some(offered) = identifier.offers.get(&port).copied() else {
            self.refuse(connection);
            return true;
        };
        let answer = SidrAnswer {
            status: SidrStatus::OK,
            qpn: offered.qpn,
            qkey: offered.qkey,
            private: PrivateData::EMPTY,
        };
        let now = self.now;
        if let Some(adapter) = self.adapters.get_mut(port) {
            // The request is fresh, so it can be answered.
            let _answered = adapter.make_cm().answer(name, &answer, now);
        }
        true
    }
}
