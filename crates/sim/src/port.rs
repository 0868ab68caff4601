//! An uplink of a simulated host: frames from the carrier stay here until the cluster takes them to the network.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use vrdma_host::{Batch, Port, Received, Segment, Train};
use vrdma_verbs::Time;

/// Bytes behind the Ethernet header; no plan has longer packets.
const MTU: u32 = 9000;

/// Most bytes that a port keeps; further frames are lost.
const KEPT_MAX: usize = 1 << 20;

/// A frame and its segment.
pub(crate) type Frame = (Segment, Vec<u8>);

#[derive(Default)]
struct State {
    queued: Vec<Frame>,
    queued_bytes: usize,
    sent: Vec<Frame>,
    arrived: VecDeque<Frame>,
    is_full: bool,
    sent_frames: u64,
    lost: u64,
}

/// Both the port and the cluster's handle of it.
#[derive(Clone, Default)]
pub(crate) struct SimPort(Rc<RefCell<State>>);

impl SimPort {
    /// Makes it take nothing, or everything, from now on.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.0.borrow_mut().is_full = is_full;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.borrow().is_full
    }

    /// Returns the frames sent since the last call.
    pub(crate) fn take_sent(&self) -> Vec<Frame> {
        std::mem::take(&mut self.0.borrow_mut().sent)
    }

    /// Makes a frame arrive.
    pub(crate) fn arrive(&self, frame: Frame) {
        self.0.borrow_mut().arrived.push_back(frame);
    }

    /// Whether frames wait for room.
    pub(crate) fn is_stuck(&self) -> bool {
        let state = self.0.borrow();
        state.is_full && !state.queued.is_empty()
    }

    /// Forgets frames that could not be sent yet, since the process that had the port ends. Frames that arrived stay.
    pub(crate) fn forget_queued(&self) {
        let mut state = self.0.borrow_mut();
        state.lost += state.queued.len() as u64;
        state.queued.clear();
        state.queued_bytes = 0;
    }

    /// Returns the number of frames that did not fit.
    pub(crate) fn lost(&self) -> u64 {
        self.0.borrow().lost
    }
}

impl State {
    fn queue(&mut self, frame: Frame) {
        if self.queued_bytes + frame.1.len() > KEPT_MAX {
            self.lost += 1;
            return;
        }
        self.queued_bytes += frame.1.len();
        self.queued.push(frame);
    }
}

impl Port for SimPort {
    fn mtu(&self) -> u32 {
        MTU
    }

    fn send(&mut self, segment: Segment, frame: &[u8]) {
        self.0.borrow_mut().queue((segment, frame.to_vec()));
    }

    fn send_in_place(
        &mut self,
        train: Train<'_>,
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool {
        let lengths = train.lengths.iter();
        let mut frames: Vec<_> = lengths.map(|length| vec![0; *length]).collect();
        let mut rooms: Vec<_> = frames.iter_mut().map(Vec::as_mut_slice).collect();
        if !fill(&mut rooms) {
            return false;
        }
        let mut state = self.0.borrow_mut();
        for frame in frames {
            state.queue((train.segment, frame));
        }
        true
    }

    fn waiting(&self) -> usize {
        self.0.borrow().queued_bytes
    }

    fn flush(&mut self) -> bool {
        let state = &mut *self.0.borrow_mut();
        if state.is_full {
            return state.queued.is_empty();
        }
        state.queued_bytes = 0;
        state.sent_frames += state.queued.len() as u64;
        state.sent.append(&mut state.queued);
        true
    }

    fn sent_frames(&self) -> u64 {
        self.0.borrow().sent_frames
    }

    fn receive(&mut self, take: &mut impl FnMut(Received<'_>) -> bool) -> Batch {
        let frames = std::mem::take(&mut self.0.borrow_mut().arrived);
        for (segment, frame) in &frames {
            take(Received {
                segment: *segment,
                frame,
            });
        }
        Batch::of(frames.len(), false)
    }

    /// None: faults are the network's.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    fn release(&mut self) {}

    fn refresh(&mut self) {}
}
