//! Requests that the library leaves to the daemon.

use core::ptr::null_mut;

use vrdma_provider::layout::opcode;
use vrdma_provider::message::access::{LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE};
use vrdma_provider::message::qp_type::RC;

use super::{INDEX, LENGTH, Request, SIGNALED, START, Scene, poll, registered};
use crate::abi;
use crate::channel::ibv_create_comp_channel;
use crate::cq::ibv_create_cq;
use crate::cq_ex::create_cq_ex;
use crate::request::INLINE;
use crate::send::RTS;

/// A request, and the rights to the peer's region that the daemon grants for it.
struct Case {
    what: &'static str,
    rights: u32,
    request: Request,
}

/// Posts requests that the library does not carry out itself.
fn are_the_daemon_s(scene: &Scene, cases: impl IntoIterator<Item = Case>) {
    for case in cases {
        let what = case.what;
        let mut qp = scene.qp();
        scene.grant(case.rights);
        case.request.post(&qp);
        assert_eq!(qp.carry_out(), 1, "{what}");
        assert!(poll(&qp).is_none(), "{what}");
        assert!(!scene.page.is_busy(INDEX), "{what}");
    }
}

#[test]
fn whatever_is_not_a_plain_read_or_write_is_the_daemon_s() {
    let scene = Scene::new();
    let sge = scene.sge(0, 16);
    let cases = [
        Case {
            what: "a send",
            rights: REMOTE_WRITE,
            request: Request::new(opcode::SEND, &[sge]),
        },
        Case {
            what: "immediate data",
            rights: REMOTE_WRITE,
            request: Request::new(opcode::RDMA_WRITE_WITH_IMM, &[sge]),
        },
        Case {
            what: "nothing",
            rights: REMOTE_WRITE,
            request: Request::new(opcode::RDMA_WRITE, &[]),
        },
        Case {
            what: "an inline read",
            rights: REMOTE_READ,
            request: Request {
                flags: SIGNALED | INLINE,
                ..Request::new(opcode::RDMA_READ, &[sge])
            },
        },
    ];
    are_the_daemon_s(&scene, cases);
}

#[test]
fn a_request_without_the_rights_is_the_daemon_s() {
    let scene = Scene::new();
    let (write, read) = (opcode::RDMA_WRITE, opcode::RDMA_READ);
    let sge = scene.sge(0, 16);
    let constant = registered(&scene, scene.pd, 0);
    let foreign = registered(&scene, scene.device.pd(), LOCAL_WRITE);
    let unknown = abi::Sge { lkey: 1, ..sge };
    let cases = [
        Case {
            what: "no right to write",
            rights: REMOTE_READ,
            request: Request::new(write, &[sge]),
        },
        Case {
            what: "no right to read",
            rights: REMOTE_WRITE,
            request: Request::new(read, &[sge]),
        },
        Case {
            what: "an unknown key",
            rights: REMOTE_WRITE,
            request: Request::new(write, &[unknown]),
        },
        Case {
            what: "another domain",
            rights: REMOTE_WRITE,
            request: Request::new(write, &[foreign]),
        },
        Case {
            what: "into a constant",
            rights: REMOTE_READ,
            request: Request::new(read, &[constant]),
        },
    ];
    are_the_daemon_s(&scene, cases);
}

#[test]
fn a_request_beyond_the_peer_s_region_is_the_daemon_s() {
    let scene = Scene::new();
    let at = |to| Request {
        to,
        ..Request::new(opcode::RDMA_WRITE, &[scene.sge(0, 16)])
    };
    let end = START + LENGTH;
    let cases = [
        Case {
            what: "before the region",
            rights: REMOTE_WRITE,
            request: at(START - 1),
        },
        Case {
            what: "beyond the region",
            rights: REMOTE_WRITE,
            request: at(end - 15),
        },
        Case {
            what: "beyond all addresses",
            rights: REMOTE_WRITE,
            request: at(u64::MAX - 3),
        },
    ];
    are_the_daemon_s(&scene, cases);
    let mut qp = scene.qp();
    scene.grant(REMOTE_WRITE);
    at(end - 16).post(&qp);
    assert_eq!(qp.carry_out(), 0, "up to the region's end");
}

/// Only the daemon can notify, and the time stamps are of its clock.
#[test]
fn queues_with_a_channel_or_time_stamps_are_the_daemon_s() {
    let scene = Scene::new();
    let context = scene.device.context();
    // SAFETY: an open context; numbers and pointers, for which zero is none.
    let queues = unsafe {
        let channel = ibv_create_comp_channel(context);
        let mut init: abi::CqInitAttrEx = core::mem::zeroed();
        init.cqe = 4;
        [
            ibv_create_cq(context, 4, null_mut(), channel, 0),
            create_cq_ex(context, &raw mut init).cast(),
        ]
    };
    for cq in queues {
        scene.grant(REMOTE_WRITE);
        let mut qp = scene.qp();
        // SAFETY: it is there.
        unsafe { (*qp.qp).send_cq = cq };
        Request::new(opcode::RDMA_WRITE, &[scene.sge(0, 4)]).post(&qp);
        assert_eq!(qp.carry_out(), 1);
    }
}

#[test]
fn a_queue_pair_that_is_not_ready_to_send_is_the_daemon_s() {
    let scene = Scene::new();
    for state in RTS..=6 {
        scene.grant(REMOTE_WRITE);
        let mut qp = scene.device.qp(scene.pd, RC, state);
        Request::new(opcode::RDMA_WRITE, &[scene.sge(0, 4)]).post(&qp);
        assert_eq!(qp.carry_out(), u32::from(state != RTS), "{state}");
    }
}
