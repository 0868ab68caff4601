//! Transfers that leave.

use vrdma_adapter::ShardId;
use vrdma_switch::{PortId, Untaken, UplinkId};
use vrdma_verbs::Source;
use vrdma_verbs::memory::{Fault, Gather, Memory};
use vrdma_verbs::unit::{InlinePart, Payload, Request, SHORT_MAX, Short};
use vrdma_verbs::work::Inline;
use vrdma_wire::Service;

use super::{Carried, Lane, Transfer};
use crate::datagrams::Datagram;
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;
use crate::turn::Turn;

/// A packet and the uplink by which it came.
pub(crate) struct FromUplink<'a> {
    pub(crate) uplink: UplinkId,
    pub(crate) frame: &'a [u8],
}

impl<M: Member, P: Port> Host<M, P> {
    /// Returns the next transfer of a lane to another shard, oldest first. Members that waited for room go on.
    pub fn next_transfer(&mut self, to: ShardId, lane: Lane) -> Option<Transfer<M>> {
        if let Some(waited) = self.lanes.make_room(to, lane) {
            self.make_go_on(waited);
        }
        self.lanes.pop(to, lane)
    }

    /// Whether transfers wait for other shards.
    pub fn has_transfers(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Makes a member send nothing until [`release`](Self::release).
    pub fn hold(&mut self, port: PortId) {
        self.lanes.hold(port);
    }

    /// Lets it send again.
    pub fn release(&mut self, port: PortId) {
        self.lanes.release(port);
        self.members.wake(port);
    }

    /// Whether no other shard reads a member's memory.
    pub fn is_quiet(&self, port: PortId) -> bool {
        !self.lanes.is_read_elsewhere(port)
    }

    /// Sends a request to a member of another shard.
    pub(crate) fn transfer(
        &mut self,
        turn: Turn<'_, M::View<'_>>,
        to: PortId,
        request: &mut Request<M::Region>,
    ) {
        let epoch = self.shared.epoch();
        let Some(home) = self.shared.home(to) else {
            return;
        };
        let is_read = request.service == Service::Rc && is_long(&request.payload);
        if !is_read && let Err(fault) = copy_payload(request, turn.memory) {
            if let Some(member) = self.members.touch(turn.from, turn.now) {
                let lost = request.payload_lost(fault);
                member.respond(turn.memory, &lost, Source::Memory(turn.memory), turn.now);
            }
            return;
        }
        let memory = self.member(turn.from).filter(|_| is_read).map(M::memory);
        if memory.is_some() {
            self.lanes.reads(turn.from);
        }
        let carried = Carried {
            origin: self.id,
            from: turn.from,
            to,
            epoch,
            // Not cloned: that would count references whose cache line the other shard is reading.
            request: Request {
                payload: std::mem::take(&mut request.payload),
                ..*request
            },
            memory,
            answer: None,
            data: Box::default(),
        };
        self.lanes.push_unit(home.shard, Transfer::Request(carried));
    }

    /// Hands a packet to the shard that has the member; `false` if that shard takes no more for now.
    pub(crate) fn transfer_packet(
        &mut self,
        shard: ShardId,
        port: PortId,
        from: FromUplink<'_>,
    ) -> bool {
        let has_room = self.lanes.has_room(shard);
        if has_room {
            let packet = Transfer::Packet {
                port,
                uplink: from.uplink,
                frame: from.frame.into(),
            };
            self.lanes.push_unit(shard, packet);
        }
        has_room
    }

    /// Hands a management datagram to the owner of the host, which is with the first shard.
    pub(crate) fn hand_to_owner(&mut self, datagram: Datagram) {
        let port = datagram.port;
        let has_room = match self.id {
            ShardId::FIRST => self.datagrams.push(datagram),
            _ => {
                self.lanes.has_room(ShardId::FIRST) && {
                    let received = Transfer::Received(Box::new(datagram));
                    self.lanes.push_unit(ShardId::FIRST, received);
                    true
                }
            }
        };
        if !has_room {
            self.refuse_datagram(port, Untaken::NoRoom);
        }
    }

    /// Has a member of another shard send a management datagram.
    pub(crate) fn transfer_datagram(&mut self, datagram: &Datagram) {
        let home = self.shared.home(datagram.port);
        if let Some(home) = home.filter(|home| home.shard != self.id)
            && self.lanes.has_room(home.shard)
        {
            let send = Transfer::Send(Box::new(datagram.clone()));
            self.lanes.push_unit(home.shard, send);
        }
    }

    /// Tells the first shard something about a member.
    pub(crate) fn tell_first(&mut self, transfer: Transfer<M>) {
        if self.id != ShardId::FIRST {
            self.lanes.push_answer(ShardId::FIRST, transfer);
        }
    }
}

/// Whether a payload is too long for a request to take along.
fn is_long<R>(payload: &Payload<R>) -> bool {
    matches!(payload, Payload::Memory(_)) && payload.length() > SHORT_MAX as u64
}

/// Copies the payload into the request itself, if it has any.
fn copy_payload<V: Memory>(request: &mut Request<V::Region>, memory: &V) -> Result<(), Fault> {
    let Payload::Memory(stretches) = &request.payload else {
        return Ok(());
    };
    if stretches.is_empty() {
        return Ok(());
    }
    if let Some(mut short) = Short::zeros(request.payload.length()) {
        read_into(short.bytes_mut(), stretches, memory)?;
        request.payload = Payload::Short(short);
        return Ok(());
    }
    let bytes = read_all(stretches, memory)?;
    let inline = Inline::from(&bytes[..]);
    request.payload = Payload::Inline(InlinePart::new(&inline, 0, bytes.len() as u32));
    Ok(())
}

/// Reads the content of memory stretches: one unit at most.
pub(super) fn read_all<V: Memory>(
    stretches: &Gather<V::Region>,
    memory: &V,
) -> Result<Box<[u8]>, Fault> {
    let length = stretches.iter().map(|part| part.length as usize).sum();
    let mut bytes = vec![0; length].into_boxed_slice();
    read_into(&mut bytes, stretches, memory)?;
    Ok(bytes)
}

fn read_into<V: Memory>(
    bytes: &mut [u8],
    stretches: &Gather<V::Region>,
    memory: &V,
) -> Result<(), Fault> {
    let mut rest = bytes;
    for part in stretches {
        let (now, later) = rest.split_at_mut(part.length as usize);
        memory.read(&part.region, part.offset, now)?;
        rest = later;
    }
    Ok(())
}
