//! How a connection is set up, on both sides, and how its objects are freed.

use core::ffi::c_void;
use std::mem::zeroed;
use std::net::SocketAddr;
use std::ptr;

use vrdma_ibverbs::abi::{CompChannel, Cq, Mr, Pd, Qp, QpAttr, QpCap, QpInitAttr, RecvWr, Sge};
use vrdma_ibverbs::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
use vrdma_ibverbs::cm::abi::{ConnParam, Id};
use vrdma_ibverbs::cm::connect::{rdma_accept, rdma_connect};
use vrdma_ibverbs::cm::endpoint::rdma_get_request;
use vrdma_ibverbs::cm::identifier::{rdma_create_id, rdma_destroy_id};
use vrdma_ibverbs::cm::qp::{rdma_create_qp, rdma_destroy_qp};
use vrdma_ibverbs::cm::resolve::{
    rdma_bind_addr, rdma_listen, rdma_resolve_addr, rdma_resolve_route,
};
use vrdma_ibverbs::cq::{ibv_create_cq, ibv_destroy_cq};
use vrdma_ibverbs::domain::{ibv_alloc_pd, ibv_dealloc_pd};
use vrdma_ibverbs::memory::{ibv_dereg_mr, ibv_reg_mr};
use vrdma_ibverbs::qp_state::ibv_modify_qp;

use super::buffers::Buffers;
use super::{Link, MESSAGES, REQUESTS, Region};
use crate::failure::Failure;

/// `RDMA_PS_TCP`.
const PORT_SPACE: u32 = 0x0106;

/// `IBV_QPT_RC`.
const RELIABLE: u32 = 2;

/// Milliseconds that resolving an address or a route may take.
const PATIENCE: i32 = 5000;

/// How often a packet is sent again; a receiver that is not ready is waited for without limit.
const RETRIES: u8 = 7;

/// `IBV_QP_MIN_RNR_TIMER`, and 0.32 ms: how long the other relay waits before it tries again whether there is a buffer.
/// rdma_cm's choice is 655 ms, too long here, since QEMU is slower than the network now and then.
const RNR_TIMER_MASK: i32 = 1 << 15;
const RNR_TIMER: u8 = 10;

/// The objects of a connection.
pub(super) struct Objects {
    pub(super) id: *mut Id,
    pub(super) pd: *mut Pd,
    pub(super) channel: *mut CompChannel,
    pub(super) cq: *mut Cq,
    pub(super) qp: *mut Qp,
    regions: Vec<*mut Mr>,
}

impl Drop for Objects {
    fn drop(&mut self) {
        // SAFETY: made here, in the opposite order, and used by nobody afterwards.
        unsafe {
            rdma_destroy_qp(self.id);
            for region in self.regions.drain(..) {
                ibv_dereg_mr(region);
            }
            ibv_destroy_cq(self.cq);
            ibv_destroy_comp_channel(self.channel);
            ibv_dealloc_pd(self.pd);
            rdma_destroy_id(self.id);
        }
    }
}

impl Objects {
    /// Creates the objects for an identifier that has its device.
    fn new(id: *mut Id) -> Result<Self, Failure> {
        let entries = (REQUESTS + MESSAGES) as i32;
        // SAFETY: the identifier is there and has a context; each object is made of the one before it, which was
        // checked.
        unsafe {
            let context = (*id).verbs;
            let pd = present(ibv_alloc_pd(context))?;
            let channel = present(ibv_create_comp_channel(context))?;
            let cq = present(ibv_create_cq(context, entries, ptr::null_mut(), channel, 0))?;
            let mut attr: QpInitAttr = zeroed();
            (attr.send_cq, attr.recv_cq, attr.qp_type) = (cq, cq, RELIABLE);
            attr.cap = QpCap {
                max_send_wr: REQUESTS as u32,
                max_recv_wr: MESSAGES as u32,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            };
            done("make a queue pair", rdma_create_qp(id, pd, &raw mut attr))?;
            Ok(Self {
                id,
                pd,
                channel,
                cq,
                qp: (*id).qp,
                regions: Vec::new(),
            })
        }
    }

    /// Sets the RNR timer of a queue pair that is connected.
    fn hurry(&self) -> Result<(), Failure> {
        let mut attr = QpAttr {
            min_rnr_timer: RNR_TIMER,
            ..QpAttr::default()
        };
        // SAFETY: a queue pair that is there, and attributes that are valid during the call.
        match unsafe { ibv_modify_qp(self.qp, &raw mut attr, RNR_TIMER_MASK) } {
            0 => Ok(()),
            error => Err(Failure::new(format!(
                "cannot set up a queue pair: {}",
                std::io::Error::from_raw_os_error(error)
            ))),
        }
    }

    /// Registers memory until the connection ends.
    ///
    /// # Safety
    /// The memory stays as long as the connection, and code that uses it knows that the adapter does, too.
    pub(super) unsafe fn register(
        &mut self,
        start: *mut c_void,
        bytes: usize,
        access: i32,
    ) -> Result<Region, Failure> {
        // SAFETY: a domain of this connection; as the caller promises.
        let region = present(unsafe { ibv_reg_mr(self.pd, start, bytes, access) })?;
        self.regions.push(region);
        // SAFETY: the region was just made.
        let (local_key, remote_key) = unsafe { ((*region).lkey, (*region).rkey) };
        Ok(Region {
            address: start as u64,
            local_key,
            remote_key,
        })
    }

    /// # Safety
    /// The memory that `place` names stays as long as the connection.
    pub(super) unsafe fn receive(&self, wr_id: u64, place: &mut Sge) -> i32 {
        let mut request = RecvWr {
            wr_id,
            next: ptr::null_mut(),
            sg_list: place,
            num_sge: 1,
        };
        let mut bad = ptr::null_mut();
        // SAFETY: a queue pair that is there, and a request that is valid during the call.
        unsafe {
            match (*(*self.qp).context).ops.post_recv {
                Some(post) => post(self.qp, &raw mut request, &raw mut bad),
                None => libc::ENOSYS,
            }
        }
    }
}

impl Link {
    /// Prepares an identifier that has its device and is not connected yet.
    fn prepare(id: *mut Id) -> Result<Self, Failure> {
        let mut objects = Objects::new(id)?;
        let buffers = Buffers::new(&mut objects)?;
        let mut link = Self::new(objects, buffers);
        for slot in 0..MESSAGES {
            link.receive(slot)?;
        }
        Ok(link)
    }

    /// Connects to a relay that listens.
    pub(crate) fn connect(to: SocketAddr) -> Result<Self, Failure> {
        let id = identifier()?;
        let mut address = storage(to);
        let address = (&raw mut address).cast();
        // SAFETY: an identifier that was just made; the address is there during the call.
        unsafe {
            let found = rdma_resolve_addr(id, ptr::null_mut(), address, PATIENCE);
            done(&format!("find {}", to.ip()), found)?;
            done(
                &format!("find the way to {}", to.ip()),
                rdma_resolve_route(id, PATIENCE),
            )?;
        }
        let link = Self::prepare(id)?;
        let mut how = parameters();
        // SAFETY: an identifier with a queue pair, and parameters that are there during the call.
        let connected = unsafe { rdma_connect(id, &raw mut how) };
        done(
            &format!("connect to a relay at {to}; start `vrdma relay` there"),
            connected,
        )?;
        link.objects.hurry()?;
        Ok(link)
    }
}

/// Accepts the connections of relays.
pub(crate) struct Listener {
    id: *mut Id,
}

impl Listener {
    pub(crate) fn new(at: SocketAddr) -> Result<Self, Failure> {
        let id = identifier()?;
        let mut address = storage(at);
        let address = (&raw mut address).cast();
        // SAFETY: an identifier that was just made; the address is there during the call.
        unsafe {
            done(&format!("listen at {at}"), rdma_bind_addr(id, address))?;
            done(&format!("listen at {at}"), rdma_listen(id, 1))?;
        }
        Ok(Self { id })
    }

    pub(crate) fn accept(&self) -> Result<Link, Failure> {
        let mut id = ptr::null_mut();
        // SAFETY: an identifier that listens, and room for a pointer.
        let called = unsafe { rdma_get_request(self.id, &raw mut id) };
        done("wait for a relay", called)?;
        let link = Link::prepare(id)?;
        let mut how = parameters();
        // SAFETY: an identifier with a queue pair, and parameters that are there during the call.
        done("accept a relay", unsafe { rdma_accept(id, &raw mut how) })?;
        link.objects.hurry()?;
        Ok(link)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // SAFETY: made here, and used by nobody afterwards.
        unsafe { rdma_destroy_id(self.id) };
    }
}

/// An identifier without an event channel, so that its calls wait for their outcome.
fn identifier() -> Result<*mut Id, Failure> {
    let mut id = ptr::null_mut();
    // SAFETY: room for a pointer.
    let made = unsafe { rdma_create_id(ptr::null_mut(), &raw mut id, ptr::null_mut(), PORT_SPACE) };
    done("use an adapter; name one of kind process", made).map(|()| id)
}

fn parameters() -> ConnParam {
    ConnParam {
        private_data: ptr::null(),
        private_data_len: 0,
        responder_resources: 0,
        initiator_depth: 0,
        flow_control: 1,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        srq: 0,
        qp_num: 0,
    }
}

fn done(what: &str, outcome: i32) -> Result<(), Failure> {
    match outcome {
        0 => Ok(()),
        _ => Err(Failure::new(format!(
            "cannot {what} ({})",
            std::io::Error::last_os_error()
        ))),
    }
}

fn present<T>(object: *mut T) -> Result<*mut T, Failure> {
    match object.is_null() {
        false => Ok(object),
        true => Err(Failure::new(format!(
            "the adapter has no room for a connection: {}",
            std::io::Error::last_os_error()
        ))),
    }
}

/// The address as C has it.
fn storage(address: SocketAddr) -> libc::sockaddr_storage {
    // SAFETY: integers and arrays of them.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let at = &raw mut storage;
    match address {
        SocketAddr::V4(v4) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: a storage is longer than any address and aligned for it.
            unsafe { at.cast::<libc::sockaddr_in>().write(v4) };
        }
        SocketAddr::V6(v6) => {
            let v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { at.cast::<libc::sockaddr_in6>().write(v6) };
        }
    }
    storage
}
