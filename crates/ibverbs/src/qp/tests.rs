//! Making queue pairs: what the daemon is asked for, and what the program is told.

use core::ffi::c_int;
use core::ptr::null_mut;

use vrdma_provider::message::qp_type::{RC, UC, UD};

use super::*;
use crate::fake_daemon::TestDevice;
use crate::fake_daemon::answers::NUMBER;
use crate::qp_ex::{create_qp_ex, ibv_qp_to_qp_ex, offered};
use crate::recv::post_recv;
use crate::srq::ibv_create_srq;

const CAP: abi::QpCap = abi::QpCap {
    max_send_wr: 5,
    max_recv_wr: 9,
    max_send_sge: 2,
    max_recv_sge: 3,
    max_inline_data: 70,
};

/// A device, and objects for queue pairs: no two have the same handle.
struct Scene {
    device: TestDevice,
    pd: *mut abi::Pd,
    attr: abi::QpInitAttr,
}

impl Scene {
    fn new() -> Self {
        let device = TestDevice::open();
        let pd = device.pd();
        let attr = abi::QpInitAttr {
            qp_context: core::ptr::without_provenance_mut(0x77),
            send_cq: device.cq(4),
            recv_cq: device.cq(4),
            srq: null_mut(),
            cap: CAP,
            qp_type: RC,
            sq_sig_all: 1,
        };
        Self { device, pd, attr }
    }

    fn srq(&self) -> *mut abi::Srq {
        // SAFETY: numbers and a pointer.
        let mut init: abi::SrqInitAttr = unsafe { core::mem::zeroed() };
        // SAFETY: a domain of the device, and attributes.
        let srq = unsafe { ibv_create_srq(self.pd, &raw mut init) };
        assert!(!srq.is_null());
        srq
    }

    fn create(&self, attr: &mut abi::QpInitAttr) -> Result<*mut abi::Qp> {
        // SAFETY: a domain of the device, and attributes with objects of it.
        let qp = unsafe { ibv_create_qp(self.pd, attr) };
        if qp.is_null() {
            Err(Errno::last())
        } else {
            Ok(qp)
        }
    }
}

#[test]
fn the_daemon_is_asked_for_what_the_program_wants() {
    let scene = Scene::new();
    let mut attr = scene.attr;
    let qp = scene.create(&mut attr).expect("a queue pair");
    let asked: CreateQp = scene.device.last();
    // SAFETY: made above.
    let handles = unsafe {
        [
            (*scene.pd).handle,
            (*attr.send_cq).handle,
            (*attr.recv_cq).handle,
        ]
    };
    assert_eq!([asked.pd, asked.send_cq, asked.recv_cq], handles);
    assert_eq!((asked.qp_type, asked.signal_all), (RC, 1));
    assert_eq!((asked.srq, asked.has_srq), (0, 0));
    let wanted = QpCapacity {
        max_send_wr: 5,
        max_recv_wr: 9,
        max_send_sge: 2,
        max_recv_sge: 3,
        max_inline: 70,
    };
    assert_eq!(asked.capacity, wanted);
    let got = attr.cap;
    assert_eq!((got.max_send_wr, got.max_recv_wr), (8, 16), "as it is now");
    assert_eq!((got.max_send_sge, got.max_recv_sge), (2, 3));
    // SAFETY: just made.
    let public = unsafe { &*qp };
    assert_eq!(public.qp_num, NUMBER + public.handle);
    assert_eq!((public.state, public.qp_type), (RESET, RC));
    assert_eq!(
        (public.send_cq, public.recv_cq),
        (attr.send_cq, attr.recv_cq)
    );
    assert_eq!((public.qp_context, public.pd), (attr.qp_context, scene.pd));
}

#[test]
fn a_queue_pair_with_a_shared_queue_has_none_of_its_own() {
    let scene = Scene::new();
    let mut attr = scene.attr;
    (attr.srq, attr.sq_sig_all) = (scene.srq(), 0);
    let qp = scene.create(&mut attr).expect("a queue pair");
    let asked: CreateQp = scene.device.last();
    // SAFETY: made above.
    let handle = unsafe { (*attr.srq).handle };
    assert_eq!((asked.srq, asked.has_srq, asked.signal_all), (handle, 1, 0));
    // SAFETY: numbers and pointers.
    let mut request: abi::RecvWr = unsafe { core::mem::zeroed() };
    let mut bad = null_mut();
    // SAFETY: a queue pair and one request.
    unsafe {
        (*qp).state = 3;
        assert_eq!(post_recv(qp, &raw mut request, &raw mut bad), libc::EINVAL);
    }
    assert_eq!(bad, &raw mut request);
}

#[test]
fn a_queue_pair_needs_both_queues() {
    let scene = Scene::new();
    let none = null_mut();
    for (send_cq, recv_cq) in [(none, scene.attr.recv_cq), (scene.attr.send_cq, none)] {
        let mut attr = abi::QpInitAttr {
            send_cq,
            recv_cq,
            ..scene.attr
        };
        assert_eq!(scene.create(&mut attr), Err(Errno(libc::EINVAL)));
    }
    assert!(scene.device.daemon().asked::<CreateQp>().is_empty());
    scene
        .device
        .daemon()
        .refuse::<CreateQp>(rustix::io::Errno::NOMEM);
    assert_eq!(
        scene.create(&mut scene.attr.clone()),
        Err(Errno(libc::ENOMEM))
    );
}

/// The arguments of `ibv_create_qp_ex`, and its outcome.
struct Row {
    what: &'static str,
    mask: u32,
    service: c_uint,
    flags: u32,
    operations: u64,
    outcome: c_int,
}

const PD: u32 = 1;
const CREATE_FLAGS: u32 = 1 << 2;
const SEND_OPS: u32 = 1 << 6;

#[test]
fn only_what_is_offered_is_made() {
    let scene = Scene::new();
    let row = |what, mask, service, flags, operations, outcome| Row {
        what,
        mask,
        service,
        flags,
        operations,
        outcome,
    };
    let all = offered(RC);
    for row in [
        row("plain", PD, RC, 0, 0, 0),
        row("all operations", PD | SEND_OPS, RC, 0, all, 0),
        row("of datagrams", PD | SEND_OPS, UD, 0, offered(UD), 0),
        row(
            "more than it has",
            PD | SEND_OPS,
            UC,
            0,
            all,
            libc::EOPNOTSUPP,
        ),
        row(
            "large sends",
            PD | SEND_OPS,
            RC,
            0,
            1 << 10,
            libc::EOPNOTSUPP,
        ),
        row("without the mask", PD, UD, 7, all, 0),
        row("no flags", PD | CREATE_FLAGS, RC, 0, 0, 0),
        row("flags", PD | CREATE_FLAGS, RC, 1, 0, libc::EOPNOTSUPP),
        row("no domain", SEND_OPS, RC, 0, all, libc::EINVAL),
        row("XRC", PD | 1 << 1, RC, 0, 0, libc::EOPNOTSUPP),
    ] {
        // SAFETY: numbers and pointers.
        let mut init: abi::QpInitAttrEx = unsafe { core::mem::zeroed() };
        (init.send_cq, init.recv_cq) = (scene.attr.send_cq, scene.attr.recv_cq);
        (init.cap, init.qp_type, init.pd) = (CAP, row.service, scene.pd);
        (init.comp_mask, init.create_flags) = (row.mask, row.flags);
        init.send_ops_flags = row.operations;
        // SAFETY: an open context, and attributes with objects of it.
        let qp = unsafe { create_qp_ex(scene.device.context(), &raw mut init) };
        if row.outcome != 0 {
            assert!(qp.is_null(), "{}", row.what);
            assert_eq!(Errno::last(), Errno(row.outcome), "{}", row.what);
            continue;
        }
        assert_eq!(
            init.cap.max_send_wr, 8,
            "{}: it is told what it got",
            row.what
        );
        // SAFETY: just made.
        let extended = unsafe { ibv_qp_to_qp_ex(qp) };
        assert_eq!(extended.is_null(), row.mask & SEND_OPS == 0, "{}", row.what);
    }
}
