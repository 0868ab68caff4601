//! Packets of one adapter for `vrdma trace`, as they pass its uplinks.
//!
//! A trace begins when somebody asks for its records, and ends when nobody has asked for a while. Messages between
//! adapters of this host are no packets and are not traced.

use std::collections::BTreeMap;
use std::time::Duration;

use vrdma_switch::PortId;
use vrdma_verbs::Time;
use vrdma_wire::pcap_record;

/// Most bytes that wait to be fetched; further packets are only counted.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// A trace ends when nobody has fetched from it for this long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);

/// The trace of one adapter.
struct Trace {
    /// Records of a pcap file.
    records: Vec<u8>,
    dropped: u64,
    fetched: Time,
    /// Time of day at the host's time zero.
    clock: Duration,
}

impl Trace {
    fn new(now: Time) -> Self {
        Self {
            records: Vec::new(),
            dropped: 0,
            fetched: now,
            clock: Duration::ZERO,
        }
    }

    fn add(&mut self, frame: &[u8], now: Time) {
        let at = self.clock + Duration::from_nanos(now.0);
        let (header, frame) = pcap_record(at, frame);
        if self.records.len() + header.len() + frame.len() > KEPT_BYTES_MAX {
            self.dropped += 1;
            return;
        }
        self.records.extend_from_slice(&header);
        self.records.extend_from_slice(frame);
    }

    /// Returns the number of packets dropped so far, then the records since the last call.
    fn fetch(&mut self, now: Time) -> Vec<u8> {
        self.fetched = now;
        let records = std::mem::take(&mut self.records);
        [&self.dropped.to_be_bytes()[..], &records].concat()
    }
}

/// The traces that are going on.
#[derive(Default)]
pub(super) struct Traces(BTreeMap<PortId, Trace>);

impl Traces {
    /// Whether somebody traces an adapter.
    pub(super) fn has(&self, port: PortId) -> bool {
        self.0.contains_key(&port)
    }

    /// Begins an adapter's trace, or continues it; returns what it has got since the last call.
    pub(super) fn fetch(&mut self, port: PortId, clock: Duration, now: Time) -> Vec<u8> {
        let trace = self.0.entry(port).or_insert_with(|| Trace::new(now));
        trace.clock = clock;
        trace.fetch(now)
    }

    /// Ends the trace of an adapter that is gone.
    pub(super) fn remove(&mut self, port: PortId) {
        self.0.remove(&port);
    }

    /// Adds a packet of an adapter to its trace, if there is one.
    pub(super) fn add(&mut self, port: PortId, frame: &[u8], now: Time) {
        // Nearly always there is no trace.
        if self.0.is_empty() {
            return;
        }
        self.0
            .retain(|_, trace| now < trace.fetched + FORGOTTEN_AFTER);
        if let Some(trace) = self.0.get_mut(&port) {
            trace.add(frame, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_fetched_once_and_bounded() {
        let mut trace = Trace::new(Time(0));
        trace.clock = Duration::new(1, 0);
        trace.add(&[7; 60], Time(2));
        let fetched = trace.fetch(Time(1));
        assert_eq!(fetched[..8], [0; 8]);
        let numbers = [1u32, 2, 60, 60].map(u32::to_ne_bytes).concat();
        assert_eq!(fetched[8..24], numbers);
        assert_eq!(fetched[24..], [7; 60]);
        assert_eq!(trace.fetch(Time(2)).len(), 8);
        let packets = KEPT_BYTES_MAX / 4112 + 3;
        (0..packets).for_each(|_| trace.add(&[0; 4096], Time(0)));
        assert!(trace.records.len() <= KEPT_BYTES_MAX);
        assert_eq!(trace.dropped, 3);
    }

    #[test]
    fn a_trace_that_nobody_fetches_is_over() {
        let mut traces = Traces::default();
        traces.fetch(PortId(1), Duration::ZERO, Time(0));
        traces.add(PortId(1), &[0; 60], Time(1));
        assert!(traces.has(PortId(1)));
        traces.add(PortId(1), &[0; 60], Time(0) + FORGOTTEN_AFTER);
        assert!(!traces.has(PortId(1)));
    }
}
