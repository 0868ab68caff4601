//! Asynchronous events: to which object each goes, and that each is acknowledged where it was counted.

use vrdma_provider::message::{CreateSrq, DestroyCq, DestroyQp, DestroySrq, qp_type::RC};

use super::*;
use crate::cq::ibv_destroy_cq;
use crate::fake_daemon::TestDevice;
use crate::qp_state::ibv_destroy_qp;
use crate::send::RTS;
use crate::srq::{ibv_create_srq, ibv_destroy_srq};

/// `enum ibv_event_type`: the number, and the kind of object that the event is about, by the header's comments and the
/// manual (ibv_get_async_event(3)).
const TYPES: [(c_uint, u32); 19] = [
    (0, element::CQ),
    (1, element::QP),
    (2, element::QP),
    (3, element::QP),
    (4, element::QP),
    (5, element::QP),
    (6, element::QP),
    (7, element::QP),
    (8, element::PORT),
    (9, element::PORT),
    (10, element::PORT),
    (11, element::PORT),
    (12, element::PORT),
    (13, element::PORT),
    (14, element::SRQ),
    (15, element::SRQ),
    (16, element::QP),
    (17, element::PORT),
    (18, element::PORT),
];

/// One object of each kind, with its cookie.
struct Scene {
    device: TestDevice,
    cq: *mut abi::Cq,
    qp: *mut abi::Qp,
    srq: *mut abi::Srq,
    cookies: [u64; 3],
}

impl Scene {
    fn new() -> Self {
        let device = TestDevice::open();
        let pd = device.pd();
        let qp = device.qp(pd, RC, RTS).qp;
        let cq = device.cq(4);
        // SAFETY: numbers and a pointer.
        let mut init: abi::SrqInitAttr = unsafe { core::mem::zeroed() };
        // SAFETY: a domain of the device, and attributes.
        let srq = unsafe { ibv_create_srq(pd, &raw mut init) };
        let cookies = {
            let daemon = device.daemon();
            let srq = daemon.asked::<CreateSrq>()[0].cookie;
            let cq = daemon.cqs.last().expect("it was made").cookie;
            [cq, daemon.queue_pairs[0].cookie, srq]
        };
        Self {
            device,
            cq,
            qp,
            srq,
            cookies,
        }
    }

    fn raise(&self, event: c_uint, about: u32) {
        let cookie = match about {
            element::CQ => self.cookies[0],
            element::QP => self.cookies[1],
            element::SRQ => self.cookies[2],
            _ => 1,
        };
        self.device.daemon().raise(&AsyncEvent {
            event,
            element: about,
            cookie,
        });
    }

    fn element(&self, about: u32) -> *mut core::ffi::c_void {
        match about {
            element::CQ => self.cq.cast(),
            element::QP => self.qp.cast(),
            element::SRQ => self.srq.cast(),
            _ => core::ptr::without_provenance_mut(1),
        }
    }

    /// Returns the next event.
    fn get(&self) -> abi::AsyncEvent {
        let mut event = abi::AsyncEvent {
            element: core::ptr::null_mut(),
            event_type: 99,
        };
        // SAFETY: an open context and a place for an event.
        let outcome = unsafe { ibv_get_async_event(self.device.context(), &raw mut event) };
        assert_eq!(outcome, 0);
        event
    }

    /// Returns the number of destructions that the daemon was asked for.
    fn ends(&self) -> usize {
        let daemon = self.device.daemon();
        daemon.asked::<DestroyCq>().len()
            + daemon.asked::<DestroyQp>().len()
            + daemon.asked::<DestroySrq>().len()
    }

    /// Returns the events acknowledged so far, of CQ, QP and SRQ.
    fn acknowledged(&self) -> [u32; 3] {
        // SAFETY: fields of objects that are there.
        unsafe {
            [
                (*self.cq).async_events_completed,
                (*self.qp).events_completed,
                (*self.srq).events_completed,
            ]
        }
    }
}

#[test]
fn each_event_names_its_object_and_is_acknowledged_there() {
    let scene = Scene::new();
    let mut wanted = [0; 3];
    for (event_type, about) in TYPES {
        scene.raise(event_type, about);
        let mut event = scene.get();
        assert_eq!(event.event_type, event_type);
        assert_eq!(event.element, scene.element(about), "{event_type}");
        if let Some(count) = (about as usize).checked_sub(1) {
            wanted[count] += 1;
        }
        // SAFETY: just handed out.
        unsafe { ibv_ack_async_event(&raw mut event) };
        assert_eq!(scene.acknowledged(), wanted, "{event_type}");
    }
    // SAFETY: given up; every event was acknowledged, so nothing waits.
    unsafe {
        assert_eq!(ibv_destroy_qp(scene.qp), 0);
        assert_eq!(ibv_destroy_cq(scene.cq), 0);
        assert_eq!(ibv_destroy_srq(scene.srq), 0);
    }
}

#[test]
fn events_of_objects_that_are_gone_are_passed_over() {
    let scene = Scene::new();
    scene.raise(1, element::QP);
    // SAFETY: given up.
    assert_eq!(unsafe { ibv_destroy_qp(scene.qp) }, 0);
    scene.raise(16, element::QP);
    scene.raise(0, element::CQ);
    assert_eq!(scene.get().element, scene.cq.cast());
}

/// Completion and asynchronous events of a CQ are counted apart.
#[test]
fn an_unacknowledged_event_keeps_each_object() {
    for (about, event_type) in [(element::CQ, 0), (element::QP, 1), (element::SRQ, 14)] {
        let scene = Scene::new();
        scene.raise(event_type, about);
        let mut event = scene.get();
        let object = event.element as usize;
        // SAFETY: given up.
        let end = std::thread::spawn(move || unsafe {
            match about {
                element::CQ => ibv_destroy_cq(object as *mut _),
                element::QP => ibv_destroy_qp(object as *mut _),
                _ => ibv_destroy_srq(object as *mut _),
            }
        });
        while scene.ends() == 0 {
            std::thread::yield_now();
        }
        assert!(!end.is_finished(), "{about}");
        // SAFETY: handed out, and not acknowledged yet.
        unsafe { ibv_ack_async_event(&raw mut event) };
        assert_eq!(end.join().expect("no panic"), 0, "{about}");
    }
}
