//! Identifiers, made by `rdma_create_id`.

use core::ffi::{c_int, c_uint, c_void};
use std::cell::UnsafeCell;

use parking_lot::{Condvar, Mutex};
use vrdma_provider::cm::{CreateId, DestroyId, Route, qp_type, space};

use super::abi;
use super::channel::Channel;
use super::device::{self, Opened};
use super::event::rdma_ack_cm_event;
use super::multicast::Membership;
use super::session::{self, Known};
use super::socket_address;
use crate::abi::{Gid, QpInitAttr};
use crate::errno::{self, Errno, Result};
use crate::fork;

/// `RDMA_MAX_RESP_RES` and `RDMA_MAX_INIT_DEPTH`: as many as the device can.
pub(super) const MOST: u8 = 0xff;

/// The structure behind a pointer to `struct rdma_cm_id`.
#[repr(C)]
pub(super) struct Identifier {
    pub(super) abi: UnsafeCell<abi::Id>,
    pub(super) number: u64,
    generation: u32,
    pub(super) counts: Counts,
    pub(super) own: Mutex<Own>,
}

/// The part that the program does not see.
pub(super) struct Own {
    /// Whether calls wait for their event; the channel is then the identifier's own.
    pub(super) synchronous: bool,
    /// Whether the last attempt to connect failed here; its end is not told again.
    pub(super) failed: bool,
    /// Whether the program was told that the device is gone.
    pub(super) removed: bool,
    pub(super) initiator_depth: u8,
    pub(super) responder_resources: u8,
    pub(super) groups: Vec<Membership>,
    /// Attributes for the queue pairs of identifiers that call this one.
    pub(super) template: Option<Template>,
    /// Private data of `rdma_addrinfo`, for calls without parameters.
    pub(super) connect_data: Vec<u8>,
}

/// Attributes that `rdma_create_ep` was given.
#[derive(Clone, Copy)]
pub(super) struct Template(pub(super) QpInitAttr);

/// Events handed out and acknowledged.
#[derive(Default)]
pub(super) struct Counts {
    open: Mutex<u32>,
    none: Condvar,
}

impl Counts {
    pub(super) fn hand_out(&self) {
        *self.open.lock() += 1;
    }

    pub(super) fn acknowledge(&self) {
        let mut open = self.open.lock();
        *open = open.saturating_sub(1);
        self.none.notify_all();
    }

    fn wait(&self) {
        let mut open = self.open.lock();
        while *open > 0 {
            self.none.wait(&mut open);
        }
    }
}

/// The kind of identifier that is wanted.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) space: c_uint,
    pub(super) qp_type: c_uint,
}

impl Kind {
    /// Returns the usual kind of queue pair of a port space.
    pub(super) fn of_space(space: c_uint) -> Self {
        let qp_type = match space {
            space::UDP => qp_type::UD,
            _ => qp_type::RC,
        };
        Self { space, qp_type }
    }
}

impl Identifier {
    /// # Safety
    /// `id` came from this library and is not destroyed yet.
    pub(super) unsafe fn of<'a>(id: *mut abi::Id) -> Result<&'a Self> {
        // SAFETY: such a pointer is to the first field of an `Identifier`.
        let identifier = unsafe { id.cast::<Self>().as_ref() }.ok_or(Errno(libc::EINVAL))?;
        if identifier.generation == fork::generation() {
            Ok(identifier)
        } else {
            Err(Errno(libc::EIO))
        }
    }

    pub(super) fn pointer(&self) -> *mut abi::Id {
        self.abi.get()
    }

    /// Returns the public part. Programs use an identifier from one thread at a time, as the manual asks.
    #[expect(clippy::mut_from_ref, reason = "the memory is the program's as well")]
    pub(super) fn public(&self) -> &mut abi::Id {
        // SAFETY: this library makes no other reference that lives across a call of it.
        unsafe { &mut *self.abi.get() }
    }

    /// Makes an identifier for the daemon's number, which events can find. The caller holds the session.
    pub(super) fn insert(
        session: &mut session::Session,
        number: u64,
        channel: *mut abi::EventChannel,
        context: *mut c_void,
        kind: Kind,
    ) -> *mut Self {
        // SAFETY: numbers and pointers, for which zero is null or none.
        let mut public: abi::Id = unsafe { core::mem::zeroed() };
        (public.channel, public.context) = (channel, context);
        (public.ps, public.qp_type) = (kind.space, kind.qp_type);
        let own = Own {
            synchronous: false,
            failed: false,
            removed: false,
            initiator_depth: 0,
            responder_resources: 0,
            groups: Vec::new(),
            template: None,
            connect_data: Vec::new(),
        };
        let identifier = Box::into_raw(Box::new(Self {
            abi: UnsafeCell::new(public),
            number,
            generation: fork::generation(),
            counts: Counts::default(),
            own: Mutex::new(own),
        }));
        session.identifiers.insert(number, Known(identifier));
        identifier
    }

    /// Makes an identifier, with a channel of its own if none is given.
    ///
    /// # Safety
    /// `channel` is null or came from this library.
    pub(super) unsafe fn create(
        channel: *mut abi::EventChannel,
        context: *mut c_void,
        kind: Kind,
    ) -> Result<*mut Self> {
        let synchronous = channel.is_null();
        let channel = if synchronous {
            Channel::create()?
        } else {
            channel
        };
        // SAFETY: as promised, or just made.
        let number = unsafe { Channel::of(channel)?.arrivals.number };
        let request = CreateId {
            channel: number,
            space: kind.space,
            qp_type: kind.qp_type,
        };
        let mut held = session::hold();
        let session = held.get()?;
        let answer = session.call(&request);
        let made =
            answer.map(|answer| Self::insert(session, answer.body.id, channel, context, kind));
        drop(held);
        match &made {
            // SAFETY: just made.
            Ok(made) => unsafe { (**made).own.lock().synchronous = synchronous },
            // SAFETY: just made, and nobody has seen it.
            Err(_) if synchronous => unsafe { Channel::destroy(channel) },
            Err(_) => {}
        }
        made
    }

    /// Takes over what the daemon knows of the addresses, and binds to the adapter's device.
    pub(super) fn follow(&self, route: &Route) -> Result<()> {
        let public = self.public();
        let address = &mut public.route.addr;
        address.src_storage = socket_address::to_c(&route.local);
        address.dst_storage = socket_address::to_c(&route.remote);
        address.addr.sgid = Gid { raw: route.sgid };
        address.addr.dgid = Gid { raw: route.dgid };
        address.addr.pkey = 0xffff;
        if !route.adapter.as_str().is_empty() && public.verbs.is_null() {
            let opened = device::of_adapter(route.adapter.as_str())?;
            (public.verbs, public.pd, public.port_num) = (opened.context, opened.pd, 1);
        }
        Ok(())
    }

    /// Takes over the path record of a route.
    pub(super) fn follow_path(&self, route: &Route) {
        let public = self.public();
        self.forget_path();
        let record = abi::PathRecord {
            dgid: Gid { raw: route.dgid },
            sgid: Gid { raw: route.sgid },
            dlid: 0xffff,
            slid: 0xffff,
            hop_limit: route.hop_limit,
            traffic_class: route.traffic_class,
            reversible: 1,
            numb_path: 1,
            pkey: 0xffff,
            mtu_selector: 2,
            mtu: route.mtu,
            rate_selector: 2,
            rate: 3,
            packet_life_time_selector: 2,
            packet_life_time: 16,
            ..abi::PathRecord::default()
        };
        public.route.path_rec = Box::into_raw(Box::new(record));
        public.route.num_paths = 1;
    }

    fn forget_path(&self) {
        let public = self.public();
        if !public.route.path_rec.is_null() {
            // SAFETY: made by `follow_path`.
            drop(unsafe { Box::from_raw(public.route.path_rec) });
            (public.route.path_rec, public.route.num_paths) = (core::ptr::null_mut(), 0);
        }
    }

    pub(super) fn device(&self) -> Result<Opened> {
        device::of_context(self.public().verbs)
    }

    pub(super) fn is_datagram(&self) -> bool {
        self.public().qp_type == qp_type::UD
    }
}

/// `rdma_create_id`.
///
/// # Safety
/// `channel` is null or came from this library, and `to` points to a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_id(
    channel: *mut abi::EventChannel,
    to: *mut *mut abi::Id,
    context: *mut c_void,
    space: c_uint,
) -> c_int {
    // SAFETY: as the caller promises.
    let made = unsafe { Identifier::create(channel, context, Kind::of_space(space)) };
    // SAFETY: as the caller promises.
    errno::minus_one(made.map(|made| unsafe { to.write(made.cast()) }))
}

/// `rdma_destroy_id`: waits until all its events are acknowledged.
///
/// # Safety
/// `id` came from this library and is given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_id(id: *mut abi::Id) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { Identifier::of(id) }.and_then(|identifier| {
        let mut held = session::hold();
        let session = held.get()?;
        let number = identifier.number;
        session.call(&DestroyId { id: number })?;
        session.identifiers.remove(&number);
        drop(held);
        let public = identifier.public();
        if !public.event.is_null() {
            // SAFETY: handed out by this library to the identifier itself.
            unsafe { rdma_ack_cm_event(public.event) };
        }
        identifier.counts.wait();
        identifier.forget_path();
        let own_channel = identifier.own.lock().synchronous.then_some(public.channel);
        // SAFETY: nobody knows it any more but the caller, who gives it up.
        drop(unsafe { Box::from_raw(id.cast::<Identifier>()) });
        if let Some(channel) = own_channel {
            // SAFETY: the identifier's own.
            unsafe { Channel::destroy(channel) };
        }
        Ok(())
    }))
}
