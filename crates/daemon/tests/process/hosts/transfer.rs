//! Writes that follow each other without a pause, each with bytes of its own, which are compared when it is done.

use std::time::{Duration, Instant};

use vrdma_provider::layout::{Buffer, Completion, SendHeader, opcode};
use vrdma_provider::message::MrReply;

use crate::client::{Client, Memory, Queues, Terms, connected};

/// Writes under way.
const SLOTS: usize = 8;

/// Bytes of a write: many packets at any path MTU.
const SLOT_BYTES: usize = 128 * 1024;

/// Limit for everything that the tests wait for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Value of bytes that no write has written.
const NOTHING: u8 = 0;

pub(super) struct Transfer<'a> {
    client: &'a Client,
    queues: Queues,
    /// The other end's queues, which stay idle.
    peer: Queues,
    from: Memory,
    to: Memory,
    posted: usize,
    done: usize,
}

/// The other end of a transfer, as requests name it.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) qpn: u32,
    /// Address of its writable memory.
    pub(super) address: u64,
    /// Key of that memory.
    pub(super) rkey: u32,
}

impl<'a> Transfer<'a> {
    /// Begins a transfer: from now on writes are under way.
    pub(super) fn begin([client, peer]: &'a [Client; 2], terms: Terms) -> Self {
        let (queues, theirs) = connected(client, peer, terms);
        let mut transfer = Self {
            client,
            queues,
            peer: theirs,
            from: Memory::new(client, NOTHING, SLOTS * SLOT_BYTES),
            to: Memory::new(peer, NOTHING, SLOTS * SLOT_BYTES),
            posted: 0,
            done: 0,
        };
        (0..SLOTS).for_each(|_| transfer.post());
        transfer
    }

    /// Returns the other end.
    pub(super) fn target(&self) -> Target {
        let MrReply { rkey, .. } = self.to.mr;
        Target {
            qpn: self.peer.reply.qp_num,
            address: self.to.bytes.as_ptr() as u64,
            rkey,
        }
    }

    /// Counts the writes that are done, with correct bytes.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Goes on for this many writes.
    pub(super) fn go_on(&mut self, writes: usize) {
        for _ in 0..writes {
            let entry = self.queues.wait();
            self.finish(&entry);
            self.post();
        }
    }

    /// Goes on until a condition holds, which writes alone may not bring about.
    pub(super) fn until(&mut self, mut so: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !so(self) {
            assert!(begun.elapsed() < PATIENCE, "it never was so");
            while let Some(entry) = self.queues.poll() {
                self.finish(&entry);
                self.post();
            }
        }
    }

    /// Waits for the writes that are under way.
    pub(super) fn end(mut self) {
        while self.done < self.posted {
            let entry = self.queues.wait();
            self.finish(&entry);
        }
    }

    /// Goes on until a write fails. Returns its status, and those of the writes that were under way behind it.
    pub(super) fn fail(mut self) -> (u32, Vec<u32>) {
        loop {
            let entry = self.queues.wait();
            if entry.status != 0 {
                let behind = self.posted - self.done - 1;
                let rest = (0..behind).map(|_| self.queues.wait().status);
                return (entry.status, rest.collect());
            }
            self.finish(&entry);
            self.post();
        }
    }

    fn post(&mut self) {
        let range = slot(self.posted);
        let pattern = self.posted as u64 + 1;
        for (at, word) in self.from.bytes[range.clone()]
            .chunks_exact_mut(8)
            .enumerate()
        {
            word.copy_from_slice(&(pattern << 32 | at as u64).to_le_bytes());
        }
        let buffer = Buffer {
            addr: self.from.bytes[range.clone()].as_ptr() as u64,
            length: SLOT_BYTES as u32,
            lkey: self.from.mr.lkey,
        };
        let header = SendHeader {
            wr_id: self.posted as u64,
            opcode: opcode::RDMA_WRITE,
            remote_addr: self.to.bytes[range].as_ptr() as u64,
            rkey: self.to.mr.rkey,
            ..SendHeader::default()
        };
        self.client.post_send(&mut self.queues, header, buffer);
        self.posted += 1;
    }

    fn finish(&mut self, entry: &Completion) {
        assert_eq!((entry.status, entry.wr_id), (0, self.done as u64));
        let range = slot(self.done);
        let same = self.from.bytes[range.clone()] == self.to.bytes[range];
        assert!(same, "write {} brought other bytes", self.done);
        self.done += 1;
    }
}

fn slot(number: usize) -> std::ops::Range<usize> {
    let start = number % SLOTS * SLOT_BYTES;
    start..start + SLOT_BYTES
}
