//! Order, room, and the end of grants.

use vrdma_provider::daemon::CompletionRing;
use vrdma_provider::layout::{Completion, opcode};
use vrdma_provider::message::access::REMOTE_WRITE;

use super::{INDEX, Request, Scene, poll};
use crate::abi;
use crate::fake_daemon::objects::TestQp;
use crate::qp_state::ibv_modify_qp;
use crate::send::RTS;

/// A queue pair whose daemon carries out what it gets.
struct Served {
    qp: TestQp,
    completions: CompletionRing,
}

impl Served {
    fn new(scene: &Scene) -> Self {
        let qp = scene.qp();
        // SAFETY: it is there.
        let completions = scene.device.completions(unsafe { (*qp.qp).send_cq });
        Self { qp, completions }
    }

    /// Carries out posted requests, with a completion for each; returns how many.
    fn carry_out(&mut self) -> u32 {
        let count = self.qp.carry_out();
        let entry = Completion {
            // SAFETY: it is there.
            qp_num: unsafe { (*self.qp.qp).qp_num },
            ..Completion::default()
        };
        for _ in 0..count {
            self.completions.write(&entry).expect("room");
        }
        self.completions.publish();
        count
    }
}

/// The order of a queue pair holds, and so does that of completions.
#[test]
fn nothing_overtakes_what_the_daemon_has() {
    let scene = Scene::new();
    scene.grant(REMOTE_WRITE);
    let mut served = Served::new(&scene);
    let write = Request::new(opcode::RDMA_WRITE, &[scene.sge(0, 4)]);
    Request::new(opcode::SEND, &[scene.sge(0, 4)]).post(&served.qp);
    write.post(&served.qp);
    assert_eq!(served.carry_out(), 2, "it waits behind the send");
    for _ in 0..3 {
        write.post(&served.qp);
        assert_eq!(served.carry_out(), 1, "a completion is not polled");
        assert!(poll(&served.qp).is_some());
    }
    while poll(&served.qp).is_some() {}
    write.post(&served.qp);
    assert_eq!(served.carry_out(), 0, "all was polled");
    let silent = Request {
        flags: 0,
        ..Request::new(opcode::SEND, &[scene.sge(0, 4)])
    };
    silent.post(&served.qp);
    write.post(&served.qp);
    assert_eq!(served.qp.carry_out(), 2, "a send without completion");
}

/// A completion of a receive does not count as one of a send.
#[test]
fn completions_of_receives_are_not_those_of_sends() {
    let scene = Scene::new();
    scene.grant(REMOTE_WRITE);
    let mut served = Served::new(&scene);
    let write = Request::new(opcode::RDMA_WRITE, &[scene.sge(0, 4)]);
    Request::new(opcode::SEND, &[scene.sge(0, 4)]).post(&served.qp);
    assert_eq!(served.qp.carry_out(), 1);
    let received = Completion {
        opcode: 1 << 7,
        ..Completion::default()
    };
    served.completions.write(&received).expect("room");
    served.completions.publish();
    assert!(poll(&served.qp).is_some());
    write.post(&served.qp);
    assert_eq!(served.carry_out(), 1, "the send is not completed");
}

#[test]
fn a_full_completion_queue_takes_no_more() {
    let scene = Scene::new();
    scene.grant(REMOTE_WRITE);
    let mut qp = scene.qp();
    let write = Request::new(opcode::RDMA_WRITE, &[scene.sge(0, 4)]);
    // SAFETY: it is there.
    let entries = unsafe { (*(*qp.qp).send_cq).cqe };
    for _ in 0..entries {
        write.post(&qp);
    }
    assert_eq!(qp.carry_out(), 0);
    write.post(&qp);
    assert_eq!(qp.carry_out(), 1);
}

/// A grant that was taken back is asked for again; a grant that was refused, only after the queue pair changed.
#[test]
fn grants_end_and_refusals_stay() {
    let scene = Scene::new();
    let write = Request::new(opcode::RDMA_WRITE, &[scene.sge(0, 4)]);
    let mut served = Served::new(&scene);
    let public = served.qp.qp;
    let mut post = |by_daemon, questions| {
        write.post(&served.qp);
        assert_eq!(
            (served.carry_out(), scene.questions()),
            (by_daemon, questions)
        );
        while poll(&served.qp).is_some() {}
    };
    post(1, 1);
    scene.grant(REMOTE_WRITE);
    post(1, 1);
    let mut attr = abi::QpAttr {
        qp_state: RTS,
        ..abi::QpAttr::default()
    };
    // SAFETY: a queue pair and attributes.
    assert_eq!(unsafe { ibv_modify_qp(public, &raw mut attr, 1) }, 0);
    post(0, 2);
    post(0, 2);
    scene.page.take_back(INDEX);
    post(1, 2);
    scene.grant(REMOTE_WRITE);
    post(0, 3);
}
