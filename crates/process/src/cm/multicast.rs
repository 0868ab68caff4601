//! Multicast groups: the group's address is a GID, and the library joins by attaching its queue pair. There is no
//! subnet manager to ask, so the event follows at once.

use rustix::io::Errno;
use vrdma_provider::cm::{DatagramPeer, Event, EventKind, Join, JoinReply, Leave};

use super::address::{AddressKind, place};
use super::handler::Handler;
use super::identifier::{HOP_LIMIT, Identifier};
use crate::quota::Kind;

/// Q_Key of datagrams and groups that `rdma_cm` makes (rdma_cma.h).
pub(super) const UDP_QKEY: u32 = 0x0123_4567;

/// Queue pair number that stands for all members.
const ALL: u32 = 0x00ff_ffff;

/// A group that an identifier has joined.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) id: u64,
}

impl Handler<'_> {
    pub(super) fn join(&mut self, join: &Join) -> Result<JoinReply, Errno> {
        let Some(AddressKind::Multicast(mgid)) = place(&join.group) else {
            return Err(Errno::INVAL);
        };
        self.client.afford(Kind::Group)?;
        self.client.check_events()?;
        let identifier = self.client.get(join.id)?;
        if identifier.adapter.is_none() {
            return Err(Errno::INVAL);
        }
        let peer = handle(identifier, mgid.0);
        let group = self.client.number();
        self.client.join(group, Group { id: join.id });
        let mut event = Event {
            id: join.id,
            group,
            kind: EventKind::MulticastJoin as u32,
            peer,
            ..Event::default()
        };
        event.parameters.qp_num = ALL;
        event.parameters.qkey = UDP_QKEY;
        self.client.tell(event);
        Ok(JoinReply { group })
    }

    pub(super) fn leave(&mut self, leave: &Leave) -> Result<(), Errno> {
        let left = self.client.leave(leave.group);
        let Group { id } = left.ok_or(Errno::INVAL)?;
        if let Some(channel) = self.client.identifiers.get(&id).map(|it| it.channel) {
            self.client.forget_group_event(leave.group, channel);
        }
        Ok(())
    }
}

/// Makes the address handle by which an identifier reaches a GID.
pub(super) fn handle(identifier: &Identifier, dgid: [u8; 16]) -> DatagramPeer {
    DatagramPeer {
        dgid,
        flow_label: 0,
        sgid_index: identifier.route.sgid_index,
        hop_limit: HOP_LIMIT,
        traffic_class: identifier.options.traffic_class,
        reserved: 0,
    }
}
