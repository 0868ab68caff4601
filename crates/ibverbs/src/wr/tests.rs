//! `ibv_wr_*` beside `ibv_post_send`: two queue pairs get the same requests, one in each way, and then their shared
//! memory is the same, byte for byte.

/// Calls a function of the public structure.
macro_rules! call {
    ($ex:ident . $function:ident ( $($argument:expr),* )) => {
        // SAFETY: called between start and end, with objects of this library.
        unsafe { $ex.$function.expect("it is offered")($($argument),*) }
    };
}

mod operations;
mod refusals;

use core::ffi::{c_int, c_uint};
use core::ptr::null_mut;

use vrdma_provider::layout::{SendHeader, opcode};
use vrdma_provider::message::access;
use vrdma_provider::message::qp_type::{RC, UC, UD};

use crate::abi;
use crate::address::ibv_create_ah;
use crate::fake_daemon::TestDevice;
use crate::fake_daemon::objects::TestQp;
use crate::qp_ex::offered;
use crate::request::{INLINE, allowed};
use crate::send::{RTS, post_send};
use crate::window::alloc_mw;

use operations::{COOKIE, KEY, Objects, QKEY, ROWS, Row, TARGET};

const SERVICES: [c_uint; 3] = [RC, UC, UD];

/// Fence, signalled and solicited, and a flag that a program may set and the daemon does not know (`IBV_SEND_IP_CSUM`).
const FLAG_SETS: [c_uint; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 16 | 2];

/// The way in which the payload is given.
#[derive(Clone, Copy, Debug)]
enum Payload {
    None,
    Inline,
    InlineList,
    Sge,
    SgeList,
    /// A key that is not registered: the daemon judges it, so nothing is copied.
    UnknownSge,
}

const PAYLOADS: [Payload; 6] = [
    Payload::None,
    Payload::Inline,
    Payload::InlineList,
    Payload::Sge,
    Payload::SgeList,
    Payload::UnknownSge,
];

impl Payload {
    fn is_inline(self) -> bool {
        matches!(self, Self::Inline | Self::InlineList)
    }

    fn sges(self, objects: &Objects) -> Vec<abi::Sge> {
        let [first, second] = objects.sges;
        match self {
            Self::None => vec![],
            Self::Inline | Self::Sge => vec![first],
            Self::InlineList | Self::SgeList => vec![first, second],
            Self::UnknownSge => vec![abi::Sge { lkey: 99, ..first }],
        }
    }

    fn call(self, ex: &abi::QpEx, qp: *mut abi::QpEx, objects: &Objects) {
        let sges = self.sges(objects);
        let bufs: Vec<_> = sges
            .iter()
            .map(|sge| abi::DataBuf {
                addr: sge.addr as *mut _,
                length: sge.length as usize,
            })
            .collect();
        match self {
            Self::None => {}
            Self::Inline => call!(ex.wr_set_inline_data(qp, bufs[0].addr, bufs[0].length)),
            Self::InlineList => {
                call!(ex.wr_set_inline_data_list(qp, bufs.len(), bufs.as_ptr()))
            }
            Self::Sge | Self::UnknownSge => {
                call!(ex.wr_set_sge(qp, sges[0].lkey, sges[0].addr, sges[0].length))
            }
            Self::SgeList => call!(ex.wr_set_sge_list(qp, sges.len(), sges.as_ptr())),
        }
    }
}

/// A request that is made in both ways.
#[derive(Clone, Copy)]
struct Request<'a> {
    row: &'a Row,
    service: c_uint,
    flags: c_uint,
    payload: Payload,
}

impl Request<'_> {
    /// Returns the request as `ibv_post_send` takes it, up to its buffers.
    fn described(&self, objects: &Objects) -> abi::SendWr {
        // SAFETY: numbers and pointers.
        let mut wr: abi::SendWr = unsafe { core::mem::zeroed() };
        wr.wr_id = COOKIE;
        wr.opcode = self.row.operation;
        let inline = if self.payload.is_inline() { INLINE } else { 0 };
        wr.send_flags = self.flags | inline;
        (self.row.describe)(objects, &mut wr);
        if self.service == UD {
            wr.wr.ud = abi::Ud {
                ah: objects.ah,
                remote_qpn: TARGET,
                remote_qkey: QKEY,
            };
        }
        wr
    }

    /// Adds the request to what was started.
    ///
    /// # Safety
    /// Between start and end, with a queue pair that has these functions.
    unsafe fn build(&self, qp: *mut abi::QpEx, objects: &Objects) {
        // SAFETY: as promised; the two fields are the program's to write.
        let ex = unsafe {
            (*qp).wr_id = COOKIE;
            (*qp).wr_flags = self.flags;
            &*qp
        };
        (self.row.call)(ex, qp, objects);
        if self.service == UD {
            call!(ex.wr_set_ud_addr(qp, objects.ah, TARGET, QKEY));
        }
        self.payload.call(ex, qp, objects);
    }
}

/// Posts a chain by `ibv_post_send`.
fn post(qp: &TestQp, requests: &[Request<'_>], objects: &Objects) -> c_int {
    let mut sges: Vec<_> = requests
        .iter()
        .map(|request| request.payload.sges(objects))
        .collect();
    let mut chain: Vec<_> = requests
        .iter()
        .map(|request| request.described(objects))
        .collect();
    let mut next = null_mut();
    for (wr, sges) in chain.iter_mut().zip(&mut sges).rev() {
        (wr.sg_list, wr.num_sge) = (sges.as_mut_ptr(), sges.len() as c_int);
        wr.next = next;
        next = wr;
    }
    let mut bad = null_mut();
    // SAFETY: a chain of requests whose objects and buffers are there.
    unsafe { post_send(qp.qp, next, &raw mut bad) }
}

/// Builds a chain by `ibv_wr_*`.
fn build(qp: &TestQp, requests: &[Request<'_>], objects: &Objects) -> c_int {
    let qp: *mut abi::QpEx = qp.qp.cast();
    // SAFETY: such a queue pair has these functions, called from start to end by one thread.
    unsafe {
        let (start, complete) = ((*qp).wr_start, (*qp).wr_complete);
        start.expect("it is offered")(qp);
        for request in requests {
            request.build(qp, objects);
        }
        complete.expect("it is offered")(qp)
    }
}

/// A device with two queue pairs of each service, and objects for requests.
struct Scene {
    device: TestDevice,
    pd: *mut abi::Pd,
    objects: Objects,
    _memory: Box<[u8; 64]>,
}

impl Scene {
    fn new() -> Self {
        let device = TestDevice::open();
        let pd = device.pd();
        let mut memory = Box::new(core::array::from_fn(|index| index as u8));
        let mr = device.mr(pd, &mut memory[..], access::LOCAL_WRITE);
        let mut attr = abi::AhAttr {
            is_global: 1,
            port_num: 1,
            sl: 3,
            ..abi::AhAttr::default()
        };
        attr.grh.dgid.raw = [0xfd; 16];
        // SAFETY: objects of this device; the region was just made.
        let objects = unsafe {
            let sge = |offset, length| abi::Sge {
                addr: (*mr).addr as u64 + offset,
                length,
                lkey: (*mr).lkey,
            };
            Objects {
                ah: ibv_create_ah(pd, &raw mut attr),
                mw: alloc_mw(pd, 2),
                mr,
                sges: [sge(1, 20), sge(30, 17)],
            }
        };
        Self {
            device,
            pd,
            objects,
            _memory: memory,
        }
    }

    /// Gives both queue pairs the chain, and compares.
    fn compare(&self, [posted, built]: [&mut TestQp; 2], requests: &[Request<'_>], what: &str) {
        let outcomes = [
            post(posted, requests, &self.objects),
            build(built, requests, &self.objects),
        ];
        assert_eq!(outcomes[0], outcomes[1], "{what}");
        assert!(posted.bytes() == built.bytes(), "{what}: other bytes");
        let wanted = if outcomes[0] == 0 { requests.len() } else { 0 };
        let carried = [posted.carry_out(), built.carry_out()];
        assert_eq!(carried, [wanted as u32; 2], "{what}");
        let rung = self.device.daemon().rung().len();
        assert_eq!(rung, if wanted > 0 { 2 } else { 0 }, "{what}");
    }
}

#[test]
fn each_builder_gives_the_slot_that_post_send_gives() {
    let scene = Scene::new();
    for service in SERVICES {
        let pair = || scene.device.qp(scene.pd, service, RTS);
        let (mut posted, mut built) = (pair(), pair());
        for row in &ROWS {
            for payload in PAYLOADS {
                for flags in FLAG_SETS {
                    let what = format!(
                        "service {service} operation {} {payload:?} flags {flags}",
                        row.operation
                    );
                    let request = Request {
                        row,
                        service,
                        flags,
                        payload,
                    };
                    scene.compare([&mut posted, &mut built], &[request], &what);
                }
            }
        }
    }
}

#[test]
fn a_chain_gives_the_same_slots_in_both_ways() {
    let scene = Scene::new();
    let pair = || scene.device.qp(scene.pd, RC, RTS);
    let (mut posted, mut built) = (pair(), pair());
    let requests: Vec<_> = ROWS
        .iter()
        .zip(PAYLOADS.iter().cycle())
        .map(|(row, payload)| Request {
            row,
            service: RC,
            flags: 2,
            payload: *payload,
        })
        .collect();
    // Three rounds, so that slots and data area wrap.
    for round in 0..3 {
        let what = format!("round {round}");
        scene.compare([&mut posted, &mut built], &requests, &what);
    }
}

#[test]
fn what_is_offered_is_in_the_table() {
    for service in SERVICES {
        let rows = ROWS.iter().filter(|row| allowed(service, row.operation));
        assert_eq!(offered(service), rows.map(|row| row.bit).sum::<u64>());
    }
}

/// The other tests show that both ways are the same; this one shows that they are right.
#[test]
fn a_key_to_invalidate_is_where_the_daemon_looks_for_it() {
    let scene = Scene::new();
    let mut qp = scene.device.qp(scene.pd, RC, RTS);
    for operation in [opcode::LOCAL_INV, opcode::SEND_WITH_INV] {
        let row = ROWS.iter().find(|row| row.operation == operation);
        let request = Request {
            row: row.expect("it is in the table"),
            service: RC,
            flags: 0,
            payload: Payload::None,
        };
        assert_eq!(build(&qp, &[request], &scene.objects), 0);
        let slot = qp.sends.fetch().expect("sane indices").expect("a request");
        let header: SendHeader = slot.header();
        assert_eq!((header.opcode, header.imm), (operation, KEY.to_ne_bytes()));
    }
}
