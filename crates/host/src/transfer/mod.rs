//! What goes from one shard to another.
//!
//! ```text
//!   shard of the requester                              shard of the responder
//!   pass ──► Transfer::Request ─── lane of units ────► take_from ──► Member::deliver ─┐
//!   Member::respond ◄── take_from ◄── lane of answers ◄─── Transfer::Answer ◄─────────┘
//! ```
//! The owner of the hosts takes transfers out of one ([`next_transfer`](crate::Host::next_transfer)) and gives them to
//! another ([`take_from`](crate::Host::take_from)), in order. Each ordered pair of shards has two lanes. A full lane of
//! units holds up the queue pairs that send there, and no others; answers are always taken, so that two shards that
//! send to each other cannot wait for each other.
//!
//! The payload of a request stays in the sender's memory, which the responder's shard reads. Short payload goes along
//! in the request. Payload that is not acknowledged (UC and UD) is copied, since its sender may use the buffer again at
//! once. A responder's memory is accessed by its own shard only: READ data is copied into the answer.
//!
//! From core to core each cache line takes some 100 ns. So requests that follow each other between the same two members
//! are delivered with one look at each memory's lock, from where they lie in the ring; one acknowledgement goes back
//! for many of them; reference counts stay with the sender's shard; and the owner of the hosts moves many transfers at
//! a time.
//!
//! To end the use of an adapter's memory, call [`hold`](crate::Host::hold) first, and wait until
//! [`is_quiet`](crate::Host::is_quiet) says that no other shard reads it.

mod lanes;
mod receive;
mod send;

use vrdma_adapter::ShardId;
use vrdma_switch::{PortId, UplinkId};
use vrdma_verbs::unit::{Nak, Request};
use vrdma_wire::Psn;

use crate::datagrams::Datagram;
use crate::host::Attachment;
use crate::location::Told;
use crate::member::Member;
pub(crate) use lanes::Lanes;
pub(crate) use send::FromUplink;

/// A transfer; see the module. Most are requests, and lie in the rings themselves: memory that is read in order crosses
/// between cores twice as fast as boxes do.
pub enum Transfer<M: Member> {
    /// A request for a member of the other shard.
    Request(Carried<M>),
    /// The result of a request of the other shard's member.
    Answer(Carried<M>),
    /// A packet from an uplink.
    Packet {
        /// The member that it is for.
        port: PortId,
        /// The uplink by which it came.
        uplink: UplinkId,
        /// The frame.
        frame: Box<[u8]>,
    },
    /// A management datagram that came for a member.
    Received(Box<Datagram>),
    /// A management datagram that a member shall send.
    Send(Box<Datagram>),
    /// A member of the sending shard was plugged in: the shard with the uplinks takes frames for its group.
    Plugged(Attachment),
    /// That member is gone.
    Unplugged(PortId),
    /// A notice for a member of the other shard.
    Notice(Box<Told>),
    /// The path MTU of a member's port has changed.
    PathMtu {
        /// The member.
        port: PortId,
        /// Payload of its largest packet.
        mtu: vrdma_wire::Mtu,
    },
    /// The remains of a transfer whose content was taken out.
    Taken,
}

impl<M: Member> Transfer<M> {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Taken)
    }

    /// Takes the request out, if it is one.
    fn take_request(&mut self) -> Option<Carried<M>> {
        match self.take() {
            Self::Request(carried) => Some(carried),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// A request on its way out, and back with its result. Its sender's shard makes it, and drops it if its payload is in
/// the sender's memory.
pub struct Carried<M: Member> {
    /// The shard that it comes back to, even if its sender is gone by then.
    origin: ShardId,
    from: PortId,
    to: PortId,
    /// Epoch of the fabric when it gave this route.
    epoch: u64,
    request: Request<M::Region>,
    /// Memory that holds the payload, unless the request itself does.
    memory: Option<M::Memory>,
    /// The responder's answer, if there is one.
    answer: Option<Answer>,
    /// Data of a READ.
    data: Box<[u8]>,
}

/// A response as it goes to another shard: its route is that of the request, and it is a fifth as long.
#[derive(Clone, Copy, Debug)]
struct Answer {
    psn: Psn,
    msn: u32,
    body: AnswerBody,
}

#[derive(Clone, Copy, Debug)]
enum AnswerBody {
    Ack,
    Nak(Nak),
    /// READ data, which lies beside it.
    Read,
    Atomic(u64),
    SourceFault,
}

/// The two lanes from one shard to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Requests, packets and datagrams: taken as the receiving shard has time for them.
    Units,
    /// Answers, and anything else that must not wait.
    Answers,
}
