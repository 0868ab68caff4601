//! Receiving with a deadline, and frames to send.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vrdma_uplink::{Port, Segment};

/// How long a frame may take before its test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Returns frames with their segments, once `wanted` have arrived; fails if they do not.
pub(crate) fn receive(port: &mut Port, wanted: usize) -> Vec<(Segment, Vec<u8>)> {
    let end = Instant::now() + PATIENCE;
    let mut frames = Vec::new();
    while frames.len() < wanted {
        let left = end.saturating_duration_since(Instant::now());
        assert!(
            !left.is_zero(),
            "{} of {wanted} frames came; {:?}",
            frames.len(),
            port.counters()
        );
        is_ready(port, left);
        drain(port, &mut frames);
    }
    frames
}

/// Whether a port's descriptor becomes ready within a time.
pub(crate) fn is_ready(port: &Port, patience: Duration) -> bool {
    let timeout = Timespec::try_from(patience).unwrap();
    let mut watched = [PollFd::new(port, PollFlags::IN)];
    poll(&mut watched, Some(&timeout)).unwrap() > 0
}

/// Takes the frames that are there now. Returns the number of arrivals.
pub(crate) fn drain(port: &mut Port, frames: &mut Vec<(Segment, Vec<u8>)>) -> usize {
    let mut sink = |received: vrdma_uplink::Received<'_>| {
        frames.push((received.segment, received.frame.to_vec()));
        true
    };
    std::iter::from_fn(|| Some(port.receive(&mut sink).unwrap()))
        .take_while(|&arrivals| arrivals > 0)
        .sum()
}

/// Makes an Ethernet frame with a number, of a type that no stack answers.
pub(crate) fn plain(from: u8, to: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// Makes a frame that looks like RoCEv2 down to the UDP port.
pub(crate) fn roce(from: u8, to: u8, number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x08, 0];
    let ip_len = (len - 14) as u16;
    frame.extend([0x45, 0]);
    frame.extend(ip_len.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame.extend([0xc0, 0, 0x12, 0xb7]);
    frame.extend((ip_len - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(len, 0x5a);
    frame
}

/// Sends without receiving until the receiver's kernel counts an overrun; fails if it never does.
pub(crate) fn overrun(from: &mut Port, to: &mut Port, segment: Segment) {
    for _ in 0..100 {
        for number in 0..1000 {
            from.send(vrdma_uplink::Hop::to(segment), &roce(1, 2, number, 1000));
        }
        from.flush();
        to.refresh();
        if to.counters().lost(vrdma_uplink::Loss::Overrun) > 0 {
            return;
        }
    }
    panic!("a buffer without end? {:?}", to.counters());
}
