//! Receives in a queue pair's own queue.

use core::ffi::c_int;
use core::ptr::null_mut;
use std::collections::VecDeque;

use proptest::prelude::*;
use vrdma_provider::daemon::WorkRing;
use vrdma_provider::layout::{Buffer, RecvHeader};
use vrdma_provider::message::qp_type::RC;

use super::post_recv;
use crate::abi;
use crate::fake_daemon::TestDevice;
use crate::fake_daemon::objects::CAPACITY;
use crate::send::RTS;

/// A chain of receives, numbered from `first`, with that many buffers each; a buffer has the request's number and its
/// own.
pub(crate) struct Chain {
    _sges: Vec<Vec<abi::Sge>>,
    requests: Vec<abi::RecvWr>,
}

impl Chain {
    pub(crate) fn new(first: u64, buffers: &[usize]) -> Self {
        let sges: Vec<Vec<_>> = (first..)
            .zip(buffers)
            .map(|(number, count)| {
                let sge = |index| abi::Sge {
                    addr: number,
                    length: index,
                    lkey: 7,
                };
                (0..*count as u32).map(sge).collect()
            })
            .collect();
        let requests = (first..).zip(&sges).map(|(wr_id, sges)| abi::RecvWr {
            wr_id,
            next: null_mut(),
            sg_list: sges.as_ptr().cast_mut(),
            num_sge: sges.len() as c_int,
        });
        let mut requests: Vec<_> = requests.collect();
        let mut next = null_mut();
        for request in requests.iter_mut().rev() {
            request.next = next;
            next = request;
        }
        Self {
            _sges: sges,
            requests,
        }
    }

    pub(crate) fn first(&mut self) -> *mut abi::RecvWr {
        match self.requests.first_mut() {
            Some(first) => first,
            None => null_mut(),
        }
    }

    /// Returns the index of the request that a post reported as bad; the length of the chain if there is none.
    pub(crate) fn position(&self, bad: *mut abi::RecvWr) -> usize {
        let is_bad = |request: &abi::RecvWr| core::ptr::eq(request, bad);
        let found = self.requests.iter().position(is_bad);
        found.unwrap_or(self.requests.len())
    }
}

/// Fetches the next receive, whose buffers are as [`Chain::new`] made them; returns its number.
pub(crate) fn fetch(ring: &mut WorkRing) -> Option<(u64, usize)> {
    let slot = ring.fetch().expect("sane indices")?;
    let header: RecvHeader = slot.header();
    for index in 0..header.buffers {
        let wanted = Buffer {
            addr: header.wr_id,
            length: index,
            lkey: 7,
        };
        assert_eq!(slot.buffer::<RecvHeader>(index as usize), Some(wanted));
    }
    Some((header.wr_id, header.buffers as usize))
}

fn post(qp: *mut abi::Qp, chain: &mut Chain) -> (c_int, usize) {
    let mut bad = null_mut();
    // SAFETY: a queue pair and a chain of requests.
    let outcome = unsafe { post_recv(qp, chain.first(), &raw mut bad) };
    (outcome, chain.position(bad))
}

#[test]
fn a_chain_of_receives_ends_at_the_first_that_is_refused() {
    let device = TestDevice::open();
    let mut qp = device.qp(device.pd(), RC, RTS);
    let most = CAPACITY.max_recv_sge as usize;
    let mut chain = Chain::new(1, &[0, most, most + 1, 1]);
    assert_eq!(post(qp.qp, &mut chain), (libc::EINVAL, 2));
    assert_eq!(fetch(&mut qp.receives), Some((1, 0)));
    assert_eq!(fetch(&mut qp.receives), Some((2, most)));
    assert_eq!(fetch(&mut qp.receives), None);
    let slots = CAPACITY.max_recv_wr as usize;
    let mut chain = Chain::new(1, &vec![1; slots]);
    assert_eq!(post(qp.qp, &mut chain), (libc::ENOMEM, slots - 2));
}

#[test]
fn receives_may_be_posted_in_every_state_but_reset() {
    let device = TestDevice::open();
    let pd = device.pd();
    for state in 0..=6 {
        let qp = device.qp(pd, RC, state);
        let wanted = if state == 0 {
            (libc::EINVAL, 0)
        } else {
            (0, 1)
        };
        assert_eq!(post(qp.qp, &mut Chain::new(1, &[1])), wanted, "{state}");
    }
}

#[test]
fn a_receive_rings_only_when_the_daemon_asks_for_it() {
    let device = TestDevice::open();
    let mut qp = device.qp(device.pd(), RC, RTS);
    assert_eq!(post(qp.qp, &mut Chain::new(1, &[1])), (0, 1));
    assert_eq!(device.daemon().rung(), []);
    qp.receives.demand_ring(true);
    assert_eq!(post(qp.qp, &mut Chain::new(2, &[1])), (0, 1));
    assert_eq!(device.daemon().rung().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn receives_arrive_in_order_whoever_is_faster(
        rounds in prop::collection::vec((prop::collection::vec(0..=2usize, 0..6), 0..6usize), 1..60)
    ) {
        let device = TestDevice::open();
        let mut qp = device.qp(device.pd(), RC, RTS);
        let (mut number, mut in_use, mut waiting) = (0, 0, VecDeque::new());
        for (buffers, taken) in rounds {
            let mut chain = Chain::new(number, &buffers);
            let fits = buffers.len().min(CAPACITY.max_recv_wr as usize - in_use);
            let errno = if fits < buffers.len() { libc::ENOMEM } else { 0 };
            prop_assert_eq!(post(qp.qp, &mut chain), (errno, fits));
            waiting.extend((number..).zip(buffers[..fits].iter().copied()));
            (number, in_use) = (number + fits as u64, in_use + fits);
            for _ in 0..taken {
                let fetched = fetch(&mut qp.receives);
                prop_assert_eq!(fetched, waiting.pop_front());
                if fetched.is_some() {
                    qp.receives.release();
                    in_use -= 1;
                }
            }
            qp.receives.show_released();
        }
    }
}
