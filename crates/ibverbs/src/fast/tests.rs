//! Requests that the library carries out itself, and requests that it leaves to the daemon.

mod delegated;
mod order;

use core::ffi::c_int;
use core::ptr::null_mut;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vrdma_provider::message::access::{LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE};
use vrdma_provider::message::qp_type::RC;

use super::*;
use crate::abi;
use crate::cq::poll_cq;
use crate::fake_daemon::TestDevice;
use crate::fake_daemon::objects::TestQp;
use crate::request::INLINE;
use crate::send::post_send;

/// The peer's region: its address in requests, and its offset in the file.
const START: u64 = 0x5000;
const OFFSET: u64 = 256;
const LENGTH: u64 = 1024;
const RKEY: u32 = 0x99;
const INDEX: u32 = 3;
const GENERATION: u32 = 7;

const SIGNALED: c_uint = send_flag::SIGNALED;

/// A client that may reach its peer, and the peer's memory.
struct Scene {
    device: TestDevice,
    pd: *mut abi::Pd,
    page: Page,
    peer: File,
    memory: Box<[u8; 64]>,
    lkey: u32,
}

fn file() -> OwnedFd {
    let file = memfd_create("peer", MemfdFlags::CLOEXEC).expect("a file");
    ftruncate(&file, OFFSET + LENGTH).expect("room");
    file
}

impl Scene {
    fn new() -> Self {
        let (page, fd) = Page::create().expect("a page");
        let device = TestDevice::open_prepared(|daemon| daemon.page = Some(fd));
        let pd = device.pd();
        let mut memory = Box::new(core::array::from_fn(|index| index as u8 + 1));
        let mr = device.mr(pd, &mut memory[..], LOCAL_WRITE);
        let peer = file();
        // SAFETY: just made.
        let lkey = unsafe { (*mr).lkey };
        Self {
            device,
            pd,
            page,
            peer: peer.into(),
            memory,
            lkey,
        }
    }

    /// Lets the daemon grant the peer's region with these rights when it is asked the next time.
    fn grant(&self, access: u32) {
        self.page.give(INDEX, GENERATION);
        let reached = Reached {
            start: START,
            length: LENGTH,
            offset: OFFSET,
            access,
            index: INDEX,
            generation: GENERATION,
            reserved: 0,
        };
        let memory = self
            .peer
            .as_fd()
            .try_clone_to_owned()
            .expect("a descriptor");
        let mut daemon = self.device.daemon();
        daemon.forget_script();
        daemon.reply_with::<Reach>(&reached, vec![memory]);
    }

    fn qp(&self) -> TestQp {
        self.device.qp(self.pd, RC, RTS)
    }

    fn sge(&self, offset: u64, length: u32) -> abi::Sge {
        abi::Sge {
            addr: self.memory.as_ptr() as u64 + offset,
            length,
            lkey: self.lkey,
        }
    }

    /// Returns the bytes in the peer's region.
    fn peers(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.peer
            .read_exact_at(&mut bytes, OFFSET + at)
            .expect("it is there");
        bytes
    }

    /// Returns how often the daemon was asked for a grant.
    fn questions(&self) -> usize {
        self.device.daemon().asked::<Reach>().len()
    }
}

/// A signalled request to the peer's region.
struct Request {
    operation: c_uint,
    flags: c_uint,
    to: u64,
    sges: Vec<abi::Sge>,
}

impl Request {
    fn new(operation: c_uint, sges: &[abi::Sge]) -> Self {
        Self {
            operation,
            flags: SIGNALED,
            to: START,
            sges: sges.to_vec(),
        }
    }

    fn post(&self, qp: &TestQp) {
        // SAFETY: numbers and pointers.
        let mut wr: abi::SendWr = unsafe { core::mem::zeroed() };
        (wr.wr_id, wr.opcode, wr.send_flags) = (5, self.operation, self.flags);
        wr.sg_list = self.sges.as_ptr().cast_mut();
        wr.num_sge = self.sges.len() as c_int;
        wr.wr.rdma = abi::Rdma {
            remote_addr: self.to,
            rkey: RKEY,
        };
        let mut bad = null_mut();
        // SAFETY: one request whose buffers are there.
        assert_eq!(unsafe { post_send(qp.qp, &raw mut wr, &raw mut bad) }, 0);
    }
}

/// Takes the next completion of the send queue.
fn poll(qp: &TestQp) -> Option<abi::Wc> {
    let mut wc = abi::Wc::default();
    // SAFETY: a CQ, and room for one.
    let found = unsafe { poll_cq((*qp.qp).send_cq, 1, &raw mut wc) };
    (found == 1).then_some(wc)
}

#[test]
fn a_write_goes_to_the_peer_s_memory_and_completes() {
    let scene = Scene::new();
    scene.grant(REMOTE_WRITE);
    let mut qp = scene.qp();
    let pieces = [scene.sge(0, 10), scene.sge(20, 0), scene.sge(30, 20)];
    let to = START + 100;
    Request {
        to,
        ..Request::new(opcode::RDMA_WRITE, &pieces)
    }
    .post(&qp);
    assert_eq!(qp.carry_out(), 0, "the daemon gets nothing of it");
    assert_eq!(scene.device.daemon().rung(), []);
    let wanted: Vec<u8> = [&scene.memory[..10], &scene.memory[30..50]].concat();
    assert_eq!(scene.peers(100, 30), wanted);
    assert_eq!(
        (scene.peers(99, 1), scene.peers(130, 1)),
        (vec![0], vec![0])
    );
    let wc = poll(&qp).expect("a completion");
    // SAFETY: it is there.
    let number = unsafe { (*qp.qp).qp_num };
    assert_eq!((wc.wr_id, wc.status, wc.opcode), (5, 0, WC_WRITE));
    assert_eq!((wc.byte_len, wc.qp_num), (30, number));
    assert!(!scene.page.is_busy(INDEX));
}

#[test]
fn a_read_comes_from_the_peer_s_memory() {
    let scene = Scene::new();
    scene.grant(REMOTE_READ);
    let mut qp = scene.qp();
    let bytes: Vec<u8> = (100..120).collect();
    scene.peer.write_all_at(&bytes, OFFSET).expect("room");
    let pieces = [scene.sge(5, 8), scene.sge(40, 12)];
    Request::new(opcode::RDMA_READ, &pieces).post(&qp);
    assert_eq!(qp.carry_out(), 0);
    assert_eq!(scene.memory[5..13], bytes[..8]);
    assert_eq!(scene.memory[40..52], bytes[8..]);
    assert_eq!(poll(&qp).map(|wc| wc.opcode), Some(WC_READ));
}

#[test]
fn inline_payload_needs_no_region_and_silence_no_completion() {
    let scene = Scene::new();
    scene.grant(REMOTE_WRITE);
    let mut qp = scene.qp();
    let own = [9u8; 12];
    let sge = abi::Sge {
        addr: own.as_ptr() as u64,
        length: 12,
        lkey: 0,
    };
    Request {
        flags: INLINE,
        ..Request::new(opcode::RDMA_WRITE, &[sge])
    }
    .post(&qp);
    assert_eq!((qp.carry_out(), scene.peers(0, 12)), (0, own.to_vec()));
    assert!(poll(&qp).is_none());
}

/// Registers memory of the program with these rights, in some domain.
fn registered(scene: &Scene, pd: *mut abi::Pd, access: u32) -> abi::Sge {
    let bytes = Box::leak(Box::new([1; 16]));
    let mr = scene.device.mr(pd, bytes, access);
    abi::Sge {
        addr: bytes.as_ptr() as u64,
        length: 16,
        // SAFETY: just made.
        lkey: unsafe { (*mr).lkey },
    }
}

#[test]
fn a_constant_may_be_written_to_the_peer() {
    let scene = Scene::new();
    scene.grant(REMOTE_WRITE);
    let mut qp = scene.qp();
    Request::new(opcode::RDMA_WRITE, &[registered(&scene, scene.pd, 0)]).post(&qp);
    assert_eq!((qp.carry_out(), scene.peers(0, 16)), (0, vec![1; 16]));
}
