//! An uplink of the tests: sent frames stay here until somebody takes them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use vrdma_host::{Batch, Port, Received, Segment, Train};
use vrdma_verbs::Time;

/// Most frames of one batch that arrives.
pub(crate) const BATCH: usize = 32;

/// A frame and its segment.
pub(crate) type Frame = (Segment, Vec<u8>);

#[derive(Default)]
struct State {
    queued: Vec<Frame>,
    sent: Vec<Frame>,
    arriving: VecDeque<Frame>,
    full: bool,
    sent_frames: u64,
    mtu: u32,
    looks: u32,
}

/// Both the port and the test's handle of it.
#[derive(Clone, Default)]
pub(crate) struct Wire(Rc<RefCell<State>>);

impl Wire {
    pub(crate) fn new(mtu: u32) -> Self {
        let wire = Self::default();
        wire.0.borrow_mut().mtu = mtu;
        wire
    }

    /// Makes it take nothing, or everything, from now on.
    pub(crate) fn set_full(&self, full: bool) {
        self.0.borrow_mut().full = full;
    }

    /// Returns the frames sent since the last call.
    pub(crate) fn take_sent(&self) -> Vec<Frame> {
        std::mem::take(&mut self.0.borrow_mut().sent)
    }

    /// Moves sent frames to another wire, where they arrive; `true` if there were any.
    pub(crate) fn move_to(&self, other: &Self) -> bool {
        let sent = self.take_sent();
        let any = !sent.is_empty();
        sent.into_iter().for_each(|frame| other.arrive(frame));
        any
    }

    /// Returns the number of frames that it has not handed on.
    pub(crate) fn waiting_frames(&self) -> usize {
        self.0.borrow().queued.len()
    }

    /// Returns how often it was asked for arrivals.
    pub(crate) fn looks(&self) -> u32 {
        self.0.borrow().looks
    }

    /// Makes a frame arrive.
    pub(crate) fn arrive(&self, frame: Frame) {
        self.0.borrow_mut().arriving.push_back(frame);
    }
}

impl Port for Wire {
    fn mtu(&self) -> u32 {
        self.0.borrow().mtu
    }

    fn send(&mut self, segment: Segment, frame: &[u8]) {
        self.0.borrow_mut().queued.push((segment, frame.to_vec()));
    }

    fn send_in_place(
        &mut self,
        train: Train<'_>,
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool {
        let lengths = train.lengths.iter();
        let mut frames: Vec<_> = lengths.map(|length| vec![0; *length]).collect();
        let mut rooms: Vec<_> = frames.iter_mut().map(Vec::as_mut_slice).collect();
        let filled = fill(&mut rooms);
        if filled {
            let frames = frames.into_iter().map(|frame| (train.segment, frame));
            self.0.borrow_mut().queued.extend(frames);
        }
        filled
    }

    fn waiting(&self) -> usize {
        let state = self.0.borrow();
        state.queued.iter().map(|(_, frame)| frame.len()).sum()
    }

    fn flush(&mut self) -> bool {
        let mut state = self.0.borrow_mut();
        if state.full {
            return state.queued.is_empty();
        }
        let queued = std::mem::take(&mut state.queued);
        state.sent_frames += queued.len() as u64;
        state.sent.extend(queued);
        true
    }

    fn sent_frames(&self) -> u64 {
        self.0.borrow().sent_frames
    }

    fn receive(&mut self, take: &mut impl FnMut(Received<'_>) -> bool) -> Batch {
        let mut state = self.0.borrow_mut();
        state.looks += 1;
        let taken = state.arriving.len().min(BATCH);
        let frames: Vec<Frame> = state.arriving.drain(..taken).collect();
        drop(state);
        for (segment, frame) in &frames {
            take(Received {
                segment: *segment,
                frame,
            });
        }
        Batch::of(frames.len(), frames.len() == BATCH)
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }

    fn release(&mut self) {}

    fn refresh(&mut self) {}
}
