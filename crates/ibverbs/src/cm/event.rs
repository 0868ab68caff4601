//! Events: fetched, understood, handed out, acknowledged.

use core::ffi::{c_int, c_void};

use vrdma_provider::cm::{self as messages, EventKind, GetEvent, PRIVATE_MAX};

use super::abi;
use super::channel::{Arrivals, Arrived, Channel, wait_for_ever};
use super::connect;
use super::endpoint;
use super::identifier::{Identifier, Kind};
use super::multicast;
use super::qp_state;
use super::removal;
use super::session;
use crate::abi::{AhAttr, Gid, GlobalRoute};
use crate::errno::{self, Errno, Result};

/// The structure that `rdma_get_cm_event` hands out a pointer to.
#[repr(C)]
struct HandedOut {
    abi: abi::Event,
    private: [u8; PRIVATE_MAX],
    /// The identifier whose destruction waits for the acknowledgement.
    counted_at: *const Identifier,
}

/// An event and the identifiers that it concerns.
struct Fetched {
    event: messages::Event,
    /// The identifier; for a call, the new one.
    id: *mut Identifier,
    /// The identifier that listens, for a call; else null.
    listener: *mut Identifier,
}

/// What is found after a channel's byte was read.
enum Found {
    Event(Box<Fetched>),
    /// The event went with its identifier.
    Nothing,
    /// The channel is destroyed.
    Destroyed,
}

/// Fetches the oldest event of a channel; its identifier stays until the event is acknowledged.
fn fetch(arrivals: &Arrivals) -> Result<Found> {
    let mut held = session::hold();
    if arrivals.is_destroyed() {
        return Ok(Found::Destroyed);
    }
    let session = held.get()?;
    let channel = arrivals.number;
    let event = match session.call(&GetEvent { channel }) {
        Ok(answer) => answer.body,
        Err(Errno(libc::EAGAIN)) => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    let found = |id, listener| {
        Found::Event(Box::new(Fetched {
            event,
            id,
            listener,
        }))
    };
    let find = |session: &session::Session, id| session.identifiers.get(&id).map(|known| known.0);
    if event.listener == 0 {
        let Some(id) = find(session, event.id) else {
            return Ok(Found::Nothing);
        };
        // SAFETY: what is known is there as long as the session is held.
        unsafe { (*id).counts.hand_out() };
        return Ok(found(id, core::ptr::null_mut()));
    }
    let Some(listener) = find(session, event.listener) else {
        return Ok(Found::Nothing);
    };
    // SAFETY: as above.
    let parent = unsafe { &*listener };
    parent.counts.hand_out();
    let public = parent.public();
    let kind = Kind {
        space: public.ps,
        qp_type: public.qp_type,
    };
    let id = Identifier::insert(session, event.id, public.channel, public.context, kind);
    Ok(found(id, listener))
}

/// Makes an event of an identifier that the daemon did not send, and counts it.
pub(super) fn made_here(id: *mut Identifier, kind: EventKind) -> *mut abi::Event {
    let fetched = Fetched {
        event: messages::Event::default(),
        id,
        listener: core::ptr::null_mut(),
    };
    fetched.hand_out(kind as u32, 0)
}

/// What is done with an event.
enum Verdict {
    /// The program is told, perhaps of another kind of event than the daemon said.
    Tell(u32, i32),
    /// The program is not told.
    Hide,
}

impl Fetched {
    fn understand(&self) -> Result<Verdict> {
        // SAFETY: counted, so it is there.
        let identifier = unsafe { &*self.id };
        let event = &self.event;
        let Some(kind) = EventKind::from_number(event.kind) else {
            return Ok(Verdict::Hide);
        };
        match kind {
            EventKind::AddressResolved => {
                if let Err(Errno(error)) = identifier.follow(&event.route) {
                    let kind = EventKind::AddressError as u32;
                    return Ok(Verdict::Tell(kind, -error));
                }
            }
            EventKind::RouteResolved => identifier.follow_path(&event.route),
            EventKind::ConnectRequest => self.called(identifier)?,
            EventKind::ConnectResponse => return Ok(answered(identifier, event)),
            EventKind::Rejected => {
                if identifier.own.lock().failed {
                    return Ok(Verdict::Hide);
                }
                // The queue pair may be gone, which is as good as flushed.
                let _flushed = qp_state::fail(identifier);
            }
            EventKind::Disconnected if identifier.own.lock().failed => return Ok(Verdict::Hide),
            EventKind::MulticastJoin => {
                if let Err(Errno(error)) = multicast::joined(identifier, event) {
                    let kind = EventKind::MulticastError as u32;
                    return Ok(Verdict::Tell(kind, -error));
                }
            }
            _ => {}
        }
        Ok(Verdict::Tell(event.kind, event.status))
    }

    fn called(&self, identifier: &Identifier) -> Result<()> {
        let parameters = &self.event.parameters;
        {
            let mut own = identifier.own.lock();
            own.initiator_depth = parameters.initiator_depth;
            own.responder_resources = parameters.responder_resources;
        }
        identifier.follow(&self.event.route)?;
        identifier.follow_path(&self.event.route);
        // SAFETY: counted, so it is there.
        if unsafe { (*self.listener).own.lock().synchronous } {
            endpoint::migrate(identifier, core::ptr::null_mut())?;
        }
        Ok(())
    }

    /// Makes the event that the program gets.
    fn hand_out(&self, kind: u32, status: i32) -> *mut abi::Event {
        // SAFETY: counted, so it is there.
        let identifier = unsafe { &*self.id };
        let parameters = &self.event.parameters;
        let counted_at = if self.listener.is_null() {
            self.id
        } else {
            self.listener
        };
        let event = Box::into_raw(Box::new(HandedOut {
            abi: abi::Event {
                id: self.id.cast(),
                listen_id: self.listener.cast(),
                event: kind,
                status,
                // SAFETY: numbers and pointers, for which zero is null.
                param: unsafe { core::mem::zeroed() },
            },
            private: parameters.private.bytes,
            counted_at,
        }));
        let length = parameters.private.as_bytes().len() as u8;
        // SAFETY: just made; the pointer goes with it.
        unsafe {
            let data = match length {
                0 => core::ptr::null(),
                _ => (&raw const (*event).private).cast::<c_void>(),
            };
            let is_datagram = identifier.is_datagram();
            (*event).abi.param = param(&self.event, is_datagram, data, length);
            if kind == EventKind::MulticastJoin as u32 || kind == EventKind::MulticastError as u32 {
                let context = multicast::context(identifier, self.event.group);
                (*event).abi.param.ud.private_data = context;
            }
        }
        event.cast()
    }
}

/// Handles the peer's acceptance: a queue pair of the identifier is connected here.
fn answered(identifier: &Identifier, event: &messages::Event) -> Verdict {
    if identifier.public().qp.is_null() {
        return Verdict::Tell(event.kind, event.status);
    }
    let own = {
        let own = identifier.own.lock();
        (own.responder_resources, own.initiator_depth)
    };
    let parameters = &event.parameters;
    let resources = own.0.min(parameters.responder_resources);
    let depth = own.1.min(parameters.initiator_depth);
    let connected = qp_state::connect(identifier, resources, depth);
    match connected.and_then(|()| connect::ready(identifier)) {
        Ok(()) => Verdict::Tell(EventKind::Established as u32, event.status),
        Err(Errno(error)) => {
            // The first error is the one to tell.
            let _flushed = qp_state::fail(identifier);
            identifier.own.lock().failed = true;
            Verdict::Tell(EventKind::ConnectError as u32, -error)
        }
    }
}

fn param(
    event: &messages::Event,
    is_datagram: bool,
    private_data: *const c_void,
    private_data_len: u8,
) -> abi::Param {
    let parameters = &event.parameters;
    if !is_datagram {
        return abi::Param {
            conn: abi::ConnParam {
                private_data,
                private_data_len,
                responder_resources: parameters.responder_resources,
                initiator_depth: parameters.initiator_depth,
                flow_control: parameters.flow_control,
                retry_count: parameters.retry_count,
                rnr_retry_count: parameters.rnr_retry_count,
                srq: parameters.srq,
                qp_num: parameters.qp_num,
            },
        };
    }
    let peer = &event.peer;
    abi::Param {
        ud: abi::UdParam {
            private_data,
            private_data_len,
            ah_attr: AhAttr {
                grh: GlobalRoute {
                    dgid: Gid { raw: peer.dgid },
                    flow_label: peer.flow_label,
                    sgid_index: peer.sgid_index,
                    hop_limit: peer.hop_limit,
                    traffic_class: peer.traffic_class,
                },
                is_global: 1,
                port_num: 1,
                ..AhAttr::default()
            },
            qp_num: parameters.qp_num,
            qkey: parameters.qkey,
        },
    }
}

/// Returns the next event that the program is to see.
///
/// # Safety
/// `channel` came from this library and is not destroyed yet, or is null. It may be destroyed meanwhile.
pub(super) unsafe fn next(channel: *mut abi::EventChannel) -> Result<*mut abi::Event> {
    // SAFETY: as the caller promises; from here on only the arrivals are looked at.
    let arrivals = unsafe { Channel::of(channel)? }.arrivals.clone();
    loop {
        let found = match arrivals.wait()? {
            Arrived::Byte => fetch(&arrivals)?,
            Arrived::End if session::is_lost() => match removal::next(channel, &arrivals)? {
                Some(event) => return Ok(event),
                None => Found::Destroyed,
            },
            Arrived::End => Found::Destroyed,
        };
        let fetched = match found {
            Found::Event(fetched) => fetched,
            Found::Nothing => continue,
            Found::Destroyed => {
                drop(arrivals);
                wait_for_ever()
            }
        };
        match fetched.understand() {
            Ok(Verdict::Tell(kind, status)) => return Ok(fetched.hand_out(kind, status)),
            Ok(Verdict::Hide) | Err(_) => fetched.drop_unseen(),
        }
    }
}

impl Fetched {
    /// Drops an event that the program does not see; a call that could not be prepared is refused.
    fn drop_unseen(&self) {
        if self.listener.is_null() {
            // SAFETY: counted, so it is there.
            unsafe { (*self.id).counts.acknowledge() };
        } else {
            // SAFETY: the new identifier is known to nobody; the listener is counted.
            unsafe {
                super::identifier::rdma_destroy_id(self.id.cast());
                (*self.listener).counts.acknowledge();
            }
        }
    }
}

/// Waits for the event that ends a call of a synchronous identifier.
pub(super) fn complete(identifier: &Identifier) -> Result<()> {
    if !identifier.own.lock().synchronous {
        return Ok(());
    }
    let public = identifier.public();
    if !public.event.is_null() {
        // SAFETY: handed out to the identifier itself.
        unsafe { rdma_ack_cm_event(public.event) };
        public.event = core::ptr::null_mut();
    }
    // SAFETY: the identifier's own channel.
    let event = unsafe { next(public.channel)? };
    public.event = event;
    // SAFETY: just handed out.
    let (kind, status) = unsafe { ((*event).event, (*event).status) };
    match status {
        0 => Ok(()),
        _ if kind == EventKind::Rejected as u32 => Err(Errno(libc::ECONNREFUSED)),
        error if error < 0 => Err(Errno(-error)),
        _ => Err(Errno(libc::ECONNREFUSED)),
    }
}

/// `rdma_get_cm_event`: blocks, unless the program made the channel's descriptor non-blocking.
///
/// # Safety
/// `channel` came from this library, and `to` points to a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_cm_event(
    channel: *mut abi::EventChannel,
    to: *mut *mut abi::Event,
) -> c_int {
    // SAFETY: as the caller promises.
    let event = unsafe { next(channel) };
    // SAFETY: as the caller promises.
    errno::minus_one(event.map(|event| unsafe { to.write(event) }))
}

/// `rdma_ack_cm_event`.
///
/// # Safety
/// `event` came from `rdma_get_cm_event` and is given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_ack_cm_event(event: *mut abi::Event) -> c_int {
    if event.is_null() {
        return errno::minus_one(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: made by `hand_out`, and no longer anybody's.
    let event = unsafe { Box::from_raw(event.cast::<HandedOut>()) };
    // SAFETY: its destruction waits for this acknowledgement.
    unsafe { (*event.counted_at).counts.acknowledge() };
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread has read the byte of an event, and then the event goes with its identifier and channel.
    #[test]
    fn a_channel_that_goes_between_an_event_and_its_byte_has_none() {
        let (_taken, theirs) = session::taken_over();
        drop(theirs);
        let (pipe, writer) = rustix::pipe::pipe().expect("a pipe");
        rustix::io::write(&writer, &[messages::TOKEN]).expect("room");
        let channel = Channel::over(pipe, 1);
        // SAFETY: a channel, which is not given up yet.
        let arrivals = unsafe { Channel::of(channel) }
            .expect("one")
            .arrivals
            .clone();
        assert!(matches!(arrivals.wait(), Ok(Arrived::Byte)));
        // SAFETY: given up.
        unsafe { Channel::destroy(channel) };
        assert!(matches!(fetch(&arrivals), Ok(Found::Destroyed)));
    }
}
