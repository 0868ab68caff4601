//! Chains of sends: what the ring has of them, and where they end.

use core::ffi::{c_int, c_uint};
use core::ptr::null_mut;

use proptest::prelude::*;
use vrdma_provider::EAGER_MAX;
use vrdma_provider::layout::{Buffer, opcode};
use vrdma_provider::message::access::{LOCAL_WRITE, ON_DEMAND};
use vrdma_provider::message::qp_type::{RC, UC};

use super::{RTS, post_send};
use crate::abi;
use crate::fake_daemon::TestDevice;
use crate::fake_daemon::objects::{CAPACITY, TestQp};
use crate::memory::ibv_reg_mr_iova;
use crate::request::INLINE;

/// Bytes of the memory that the tests send from: more than goes by value.
const BYTES: usize = EAGER_MAX as usize + 4096;

/// One request.
#[derive(Clone, Debug)]
struct Request {
    opcode: c_uint,
    flags: c_uint,
    sges: Vec<abi::Sge>,
}

impl Request {
    fn new(opcode: c_uint, sges: &[abi::Sge]) -> Self {
        let sges = sges.to_vec();
        Self {
            opcode,
            flags: 0,
            sges,
        }
    }

    fn inline(self) -> Self {
        Self {
            flags: INLINE,
            ..self
        }
    }
}

/// Posts a chain; returns the outcome, and how many requests went before the one that is reported as bad.
fn post(qp: &TestQp, requests: &[Request]) -> (c_int, usize) {
    let mut chain: Vec<abi::SendWr> = requests
        .iter()
        .zip(0..)
        .map(|(request, wr_id)| {
            // SAFETY: numbers and pointers.
            let mut wr: abi::SendWr = unsafe { core::mem::zeroed() };
            (wr.wr_id, wr.opcode, wr.send_flags) = (wr_id, request.opcode, request.flags);
            wr.sg_list = request.sges.as_ptr().cast_mut();
            wr.num_sge = request.sges.len() as c_int;
            wr
        })
        .collect();
    let mut next = null_mut();
    for wr in chain.iter_mut().rev() {
        wr.next = next;
        next = wr;
    }
    let mut bad = null_mut();
    // SAFETY: a chain of requests whose buffers are there.
    let outcome = unsafe { post_send(qp.qp, next, &raw mut bad) };
    let is_bad = |wr: &abi::SendWr| core::ptr::eq(wr, bad);
    let posted = chain.iter().position(is_bad).unwrap_or(requests.len());
    (outcome, posted)
}

/// A device, and memory of it: `memory[i]` is `i` modulo 251.
struct Scene {
    device: TestDevice,
    pd: *mut abi::Pd,
    memory: Box<[u8]>,
    lkey: u32,
}

impl Scene {
    fn new() -> Self {
        let device = TestDevice::open();
        let pd = device.pd();
        let mut memory: Box<[u8]> = (0..BYTES).map(|index| (index % 251) as u8).collect();
        let mr = device.mr(pd, &mut memory, LOCAL_WRITE);
        // SAFETY: just made.
        let lkey = unsafe { (*mr).lkey };
        Self {
            device,
            pd,
            memory,
            lkey,
        }
    }

    fn qp(&self) -> TestQp {
        self.device.qp(self.pd, RC, RTS)
    }

    fn sge(&self, offset: usize, length: usize) -> abi::Sge {
        abi::Sge {
            addr: self.memory.as_ptr() as u64 + offset as u64,
            length: length as u32,
            lkey: self.lkey,
        }
    }
}

fn buffer(sge: &abi::Sge) -> Buffer {
    Buffer {
        addr: sge.addr,
        length: sge.length,
        lkey: sge.lkey,
    }
}

#[test]
fn a_chain_ends_at_the_first_request_that_is_refused() {
    let scene = Scene::new();
    let short = scene.sge(0, 8);
    let good = Request::new(opcode::SEND, &[short]);
    let buffers = |count: u32| vec![short; count as usize];
    let (sges, inline) = (CAPACITY.max_send_sge, CAPACITY.max_inline_data as usize);
    let refused = [
        ("no such operation", Request::new(77, &[short])),
        (
            "too many buffers",
            Request::new(opcode::RDMA_READ, &buffers(sges + 1)),
        ),
        (
            "too many buffers, though they could be copied",
            Request::new(opcode::SEND, &buffers(sges + 1)),
        ),
        (
            "too long for inline",
            Request::new(opcode::SEND, &[scene.sge(0, inline + 1)]).inline(),
        ),
        (
            "too long for inline together",
            Request::new(opcode::SEND, &[scene.sge(0, inline), short]).inline(),
        ),
    ];
    let mut qp = scene.qp();
    for (what, bad) in refused {
        let chain = [good.clone(), good.clone(), bad, good.clone()];
        assert_eq!(post(&qp, &chain), (libc::EINVAL, 2), "{what}");
        assert_eq!(qp.carry_out(), 2, "{what}: those before are posted");
        assert_eq!(scene.device.daemon().rung().len(), 1, "{what}");
    }
    let most = Request::new(opcode::RDMA_READ, &buffers(sges));
    let inline = Request::new(opcode::SEND, &[scene.sge(0, inline)]).inline();
    assert_eq!(post(&qp, &[most, inline]), (0, 2));
}

#[test]
fn operations_of_other_services_are_refused() {
    let scene = Scene::new();
    let mut qp = scene.device.qp(scene.pd, UC, RTS);
    let read = Request::new(opcode::RDMA_READ, &[scene.sge(0, 8)]);
    assert_eq!(post(&qp, &[read]), (libc::EINVAL, 0));
    assert_eq!(qp.carry_out(), 0);
    let write = Request::new(opcode::RDMA_WRITE, &[scene.sge(0, 8)]);
    assert_eq!(post(&qp, &[write]), (0, 1));
}

#[test]
fn sends_begin_with_the_state_ready_to_send() {
    let scene = Scene::new();
    let request = Request::new(opcode::SEND, &[]);
    for state in 0..=6 {
        let qp = scene.device.qp(scene.pd, RC, state);
        let wanted = if state < RTS {
            (libc::EINVAL, 0)
        } else {
            (0, 1)
        };
        assert_eq!(
            post(&qp, core::slice::from_ref(&request)),
            wanted,
            "{state}"
        );
    }
}

#[test]
fn a_full_queue_takes_what_fits_and_more_when_there_is_room() {
    let scene = Scene::new();
    let mut qp = scene.qp();
    let slots = CAPACITY.max_send_wr as usize;
    let chain = vec![Request::new(opcode::SEND, &[scene.sge(0, 8)]); slots + 1];
    assert_eq!(post(&qp, &chain), (libc::ENOMEM, slots));
    assert_eq!(post(&qp, &chain[..1]), (libc::ENOMEM, 0));
    let fetched = core::iter::from_fn(|| qp.fetch()).map(|fetched| fetched.header.wr_id);
    assert!(fetched.eq(0..slots as u64));
    assert_eq!(post(&qp, &chain[..1]), (libc::ENOMEM, 0), "they are in use");
    qp.release(3);
    assert_eq!(post(&qp, &chain[..4]), (libc::ENOMEM, 3));
}

#[test]
fn a_chain_rings_once_and_nothing_rings_not_at_all() {
    let scene = Scene::new();
    let qp = scene.qp();
    let chain = vec![Request::new(opcode::SEND, &[]); 3];
    assert_eq!(post(&qp, &chain), (0, 3));
    assert_eq!(scene.device.daemon().rung().len(), 1);
    assert_eq!(post(&qp, &[]), (0, 0));
    assert_eq!(scene.device.daemon().rung(), []);
}

/// Payload is copied only if the library knows that the daemon would read the same.
#[test]
fn payload_is_copied_if_it_is_short_registered_and_sent() {
    let scene = Scene::new();
    let mut qp = scene.qp();
    let (other_pd, mut elsewhere) = (scene.device.pd(), [0; 16]);
    let other = scene.device.mr(other_pd, &mut elsewhere, LOCAL_WRITE);
    let on_demand = scene.device.mr(scene.pd, &mut elsewhere, ON_DEMAND);
    // SAFETY: just made.
    let (other, on_demand) = unsafe { ((*other).lkey, (*on_demand).lkey) };
    let (eager, short) = (EAGER_MAX as usize, scene.sge(5, 8));
    let behind = scene.sge(BYTES - 4, 8);
    let keyed = |lkey| abi::Sge {
        addr: elsewhere.as_ptr() as u64,
        length: 8,
        lkey,
    };
    let cases: [(&str, u32, Vec<abi::Sge>, bool); 11] = [
        ("a send", opcode::SEND, vec![short], true),
        ("a write", opcode::RDMA_WRITE, vec![short, short], true),
        ("the longest", opcode::SEND, vec![scene.sge(1, eager)], true),
        ("longer", opcode::SEND, vec![scene.sge(1, eager + 1)], false),
        ("nothing", opcode::SEND, vec![scene.sge(1, 0)], false),
        ("what is read", opcode::RDMA_READ, vec![short], false),
        ("atomics", opcode::ATOMIC_FETCH_AND_ADD, vec![short], false),
        ("no such key", opcode::SEND, vec![keyed(1)], false),
        ("another domain", opcode::SEND, vec![keyed(other)], false),
        ("on demand", opcode::SEND, vec![keyed(on_demand)], false),
        (
            "beyond the region",
            opcode::SEND,
            vec![short, behind],
            false,
        ),
    ];
    for (what, operation, sges, copied) in cases {
        assert_eq!(
            post(&qp, &[Request::new(operation, &sges)]),
            (0, 1),
            "{what}"
        );
        let fetched = qp.fetch().expect("it was posted");
        qp.release(1);
        assert_eq!(fetched.copied.is_some(), copied, "{what}");
        let wanted: Vec<Buffer> = sges.iter().map(buffer).collect();
        assert_eq!(
            fetched.buffers,
            if copied { vec![] } else { wanted },
            "{what}"
        );
    }
}

#[test]
fn a_region_with_addresses_of_its_own_is_copied_from_where_it_is() {
    const IOVA: u64 = 0x10_0000;
    let scene = Scene::new();
    let mut qp = scene.qp();
    let (start, access) = (
        scene.memory.as_ptr().cast_mut().cast(),
        LOCAL_WRITE as c_int,
    );
    // SAFETY: a domain of the device.
    let mr = unsafe { ibv_reg_mr_iova(scene.pd, start, 64, IOVA, access) };
    let sge = abi::Sge {
        addr: IOVA + 10,
        length: 20,
        // SAFETY: just made.
        lkey: unsafe { (*mr).lkey },
    };
    assert_eq!(post(&qp, &[Request::new(opcode::SEND, &[sge])]), (0, 1));
    let copied = qp.fetch().expect("it was posted").copied;
    assert_eq!(copied.as_deref(), Some(&scene.memory[10..30]));
}

/// Returns up to three pieces of the scene's memory.
fn pieces() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let length = prop_oneof![0..64usize, 0..3000usize, 8000..BYTES];
    let piece = length.prop_flat_map(|length| (0..=BYTES - length, Just(length)));
    prop::collection::vec(piece, 0..=3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is posted and however fast the daemon is, it reads the program's bytes, in order.
    #[test]
    fn the_daemon_reads_what_was_posted(
        rounds in prop::collection::vec((prop::collection::vec((pieces(), any::<bool>()), 1..6), 0..9usize), 1..40)
    ) {
        let scene = Scene::new();
        let mut qp = scene.qp();
        let (mut posted, mut fetched, mut in_use) = (Vec::new(), 0, 0);
        for (requests, done) in rounds {
            let requests: Vec<_> = requests.iter().map(|(pieces, inline)| {
                let sges: Vec<_> = pieces.iter().map(|(at, length)| scene.sge(*at, *length)).collect();
                let total: u32 = sges.iter().map(|sge| sge.length).sum();
                let request = Request::new(opcode::SEND, &sges);
                if *inline && total <= CAPACITY.max_inline_data { request.inline() } else { request }
            }).collect();
            let room = CAPACITY.max_send_wr as usize - in_use;
            let wanted = room.min(requests.len());
            let errno = if wanted < requests.len() { libc::ENOMEM } else { 0 };
            prop_assert_eq!(post(&qp, &requests), (errno, wanted));
            posted.extend_from_slice(&requests[..wanted]);
            in_use += wanted;
            while let Some(found) = qp.fetch() {
                let request = &posted[fetched];
                fetched += 1;
                let bytes = scene.bytes(&request.sges);
                match found.copied {
                    Some(copied) => prop_assert!(copied == bytes, "other bytes"),
                    None => {
                        let buffers: Vec<_> = request.sges.iter().map(buffer).collect();
                        prop_assert_eq!(found.buffers, buffers);
                        prop_assert_eq!(request.flags & INLINE, 0);
                    }
                }
            }
            prop_assert_eq!(fetched, posted.len());
            let done = done.min(in_use);
            qp.release(done);
            in_use -= done;
        }
    }
}

impl Scene {
    fn bytes(&self, sges: &[abi::Sge]) -> Vec<u8> {
        let start = self.memory.as_ptr() as u64;
        let piece = |sge: &abi::Sge| {
            let at = (sge.addr - start) as usize;
            self.memory[at..at + sge.length as usize].to_vec()
        };
        sges.iter().flat_map(piece).collect()
    }
}
