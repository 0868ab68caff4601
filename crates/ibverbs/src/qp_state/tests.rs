//! Changing, querying and ending queue pairs.

use proptest::prelude::*;
use rustix::io::Errno as Refusal;
use vrdma_provider::layout::AddressVector;
use vrdma_provider::message::qp_type::RC;
use vrdma_provider::message::{DestroyQp, QpAttributes, QpCapacity, QueryQpReply};

use super::*;
use crate::fake_daemon::TestDevice;
use crate::fake_daemon::objects::TestQp;
use crate::qp_attributes::{from_daemon, to_daemon};
use crate::recv::post_recv;
use crate::send::{RTS, post_send};

fn modify(qp: &TestQp, attr: &mut abi::QpAttr, mask: c_int) -> c_int {
    // SAFETY: a queue pair and attributes.
    unsafe { ibv_modify_qp(qp.qp, attr, mask) }
}

fn state(qp: &TestQp) -> c_uint {
    // SAFETY: a public field of a queue pair that is there.
    unsafe { (*qp.qp).state }
}

/// Attributes whose fields all differ.
fn attributes() -> abi::QpAttr {
    let mut ah_attr = abi::AhAttr {
        is_global: 1,
        sl: 21,
        port_num: 22,
        ..abi::AhAttr::default()
    };
    ah_attr.grh = abi::GlobalRoute {
        dgid: abi::Gid { raw: [23; 16] },
        flow_label: 24,
        sgid_index: 25,
        hop_limit: 26,
        traffic_class: 27,
    };
    abi::QpAttr {
        qp_state: 1,
        cur_qp_state: 2,
        path_mtu: 3,
        qkey: 4,
        rq_psn: 5,
        sq_psn: 6,
        dest_qp_num: 7,
        qp_access_flags: 8,
        ah_attr,
        pkey_index: 9,
        en_sqd_async_notify: 10,
        max_rd_atomic: 11,
        max_dest_rd_atomic: 12,
        min_rnr_timer: 13,
        port_num: 14,
        timeout: 15,
        retry_cnt: 16,
        rnr_retry: 17,
        ..abi::QpAttr::default()
    }
}

#[test]
fn each_attribute_goes_to_its_place() {
    let wanted = QpAttributes {
        state: 1,
        current_state: 2,
        path_mtu: 3,
        qkey: 4,
        rq_psn: 5,
        sq_psn: 6,
        dest_qp_num: 7,
        access: 8,
        address: AddressVector {
            dgid: [23; 16],
            flow_label: 24,
            sgid_index: 25,
            hop_limit: 26,
            traffic_class: 27,
            sl: 21,
            port: 22,
            ..AddressVector::default()
        },
        pkey_index: 9,
        en_sqd_async_notify: 10,
        sq_draining: 0,
        max_rd_atomic: 11,
        max_dest_rd_atomic: 12,
        min_rnr_timer: 13,
        port: 14,
        timeout: 15,
        retry_count: 16,
        rnr_retry: 17,
        reserved: 0,
    };
    assert_eq!(to_daemon(&attributes()), wanted);
}

/// Any attributes that a daemon may tell; fields that a program does not set have their usual values.
fn told() -> impl Strategy<Value = QpAttributes> {
    let words = any::<[u32; 7]>();
    let bytes = any::<[u8; 14]>();
    (words, bytes, any::<[u8; 16]>()).prop_map(|(words, bytes, dgid)| QpAttributes {
        state: words[0],
        current_state: words[0],
        path_mtu: words[1],
        qkey: words[2],
        rq_psn: words[3],
        sq_psn: words[4],
        dest_qp_num: words[5],
        access: words[6],
        address: AddressVector {
            dgid,
            flow_label: words[0] ^ words[1],
            sgid_index: bytes[0],
            hop_limit: bytes[1],
            traffic_class: bytes[2],
            sl: bytes[3],
            port: bytes[4],
            ..AddressVector::default()
        },
        pkey_index: u16::from(bytes[5]),
        en_sqd_async_notify: bytes[6],
        sq_draining: 0,
        max_rd_atomic: bytes[7],
        max_dest_rd_atomic: bytes[8],
        min_rnr_timer: bytes[9],
        port: bytes[10],
        timeout: bytes[11],
        retry_count: bytes[12],
        rnr_retry: bytes[13],
        reserved: 0,
    })
}

proptest! {
    /// Attributes that a query tells can be set again, as tools that copy queue pairs do.
    #[test]
    fn what_is_told_can_be_set_again(told in told()) {
        let capacity = QpCapacity::default();
        prop_assert_eq!(to_daemon(&from_daemon(&told, &capacity)), told);
    }
}

#[test]
fn the_state_is_the_last_that_the_daemon_granted() {
    let device = TestDevice::open();
    let qp = device.qp(device.pd(), RC, RTS);
    // SAFETY: it was just made.
    let handle = unsafe { (*qp.qp).handle };
    let mut attr = attributes();
    assert_eq!(modify(&qp, &mut attr, 0x7e), 0);
    let asked: ModifyQp = device.last();
    assert_eq!((asked.qp, asked.mask), (handle, 0x7e));
    assert_eq!(asked.attributes, to_daemon(&attr));
    assert_eq!(state(&qp), RTS, "the mask does not name the state");
    device.daemon().refuse::<ModifyQp>(Refusal::INVAL);
    assert_eq!(modify(&qp, &mut attr, STATE), libc::EINVAL);
    assert_eq!(state(&qp), RTS);
    assert_eq!(modify(&qp, &mut attr, STATE), 0);
    assert_eq!(state(&qp), 1);
}

#[test]
fn a_reset_begins_anew() {
    let device = TestDevice::open();
    let mut qp = device.qp(device.pd(), RC, RTS);
    // SAFETY: numbers and pointers.
    let (mut send, mut recv): (abi::SendWr, abi::RecvWr) = unsafe { core::mem::zeroed() };
    send.opcode = 2;
    let post = |qp: &TestQp, send: &mut abi::SendWr, recv: &mut abi::RecvWr| {
        let (mut bad, mut bad_recv) = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: a queue pair and single requests.
        unsafe {
            [
                post_send(qp.qp, send, &raw mut bad),
                post_recv(qp.qp, recv, &raw mut bad_recv),
            ]
        }
    };
    for _ in 0..3 {
        assert_eq!(post(&qp, &mut send, &mut recv), [0, 0]);
    }
    let mut attr = abi::QpAttr::default();
    qp.sends.restart();
    qp.receives.restart();
    assert_eq!(modify(&qp, &mut attr, STATE), 0);
    assert_eq!(post(&qp, &mut send, &mut recv), [libc::EINVAL; 2]);
    attr.qp_state = RTS;
    assert_eq!(modify(&qp, &mut attr, STATE), 0);
    assert_eq!(post(&qp, &mut send, &mut recv), [0, 0]);
    assert_eq!(qp.carry_out(), 1, "what was posted before is gone");
    assert_eq!(qp.receives.refresh(), Ok(1));
}

#[test]
fn a_query_tells_what_the_daemon_knows() {
    let device = TestDevice::open();
    let qp = device.qp(device.pd(), RC, RTS);
    let reply = QueryQpReply {
        attributes: QpAttributes {
            state: 6,
            sq_draining: 1,
            sq_psn: 9,
            ..QpAttributes::default()
        },
        capacity: QpCapacity {
            max_send_wr: 1,
            max_recv_wr: 2,
            max_send_sge: 3,
            max_recv_sge: 4,
            max_inline: 5,
        },
    };
    device.daemon().reply::<QueryQp>(&reply);
    let mut attr = abi::QpAttr::default();
    // SAFETY: numbers and pointers.
    let mut init: abi::QpInitAttr = unsafe { core::mem::zeroed() };
    // SAFETY: a queue pair, and places for what is told.
    let outcome = unsafe { ibv_query_qp(qp.qp, &raw mut attr, 0, &raw mut init) };
    assert_eq!(outcome, 0);
    assert_eq!((attr.qp_state, attr.cur_qp_state), (6, 6));
    assert_eq!((attr.sq_draining, attr.sq_psn), (1, 9));
    assert_eq!(state(&qp), 6, "the daemon knows better");
    let cap = init.cap;
    assert_eq!((cap.max_send_wr, cap.max_recv_wr), (1, 2));
    assert_eq!((cap.max_send_sge, cap.max_recv_sge), (3, 4));
    assert_eq!((cap.max_inline_data, attr.cap.max_inline_data), (5, 5));
    // SAFETY: it is there.
    let public = unsafe { &*qp.qp };
    assert_eq!(
        (init.send_cq, init.recv_cq),
        (public.send_cq, public.recv_cq)
    );
    assert_eq!((init.qp_type, init.sq_sig_all), (RC, 0));
}

#[test]
fn a_queue_pair_that_the_daemon_keeps_is_there() {
    let device = TestDevice::open();
    let qp = device.qp(device.pd(), RC, RTS);
    device.daemon().refuse::<DestroyQp>(Refusal::BUSY);
    // SAFETY: a queue pair, which is there after the refusal.
    unsafe {
        assert_eq!(ibv_destroy_qp(qp.qp), libc::EBUSY);
        assert_eq!((*qp.qp).state, RTS);
        assert_eq!(ibv_destroy_qp(qp.qp), 0);
    }
}

#[test]
fn a_queue_pair_ends_when_nothing_is_written_to_its_buffers_any_more() {
    let device = TestDevice::open();
    let qp = device.qp(device.pd(), RC, RTS);
    device.daemon().refuse::<ModifyQp>(Refusal::AGAIN);
    let mut error = abi::QpAttr {
        qp_state: 6,
        ..attributes()
    };
    let modified = modify(&qp, &mut error, STATE);
    assert_eq!((modified, state(&qp)), (0, 6));
    device.daemon().refuse::<DestroyQp>(Refusal::AGAIN);
    device.daemon().refuse::<DestroyQp>(Refusal::AGAIN);
    // SAFETY: given up.
    assert_eq!(unsafe { ibv_destroy_qp(qp.qp) }, 0);
    assert_eq!(device.daemon().asked::<DestroyQp>().len(), 3);
}
