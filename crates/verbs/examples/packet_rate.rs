//! How many packets one thread takes from one adapter to another, including their frames.
//!
//! Question: what does a packet cost in the engine alone? For one packet, the requester cuts it, it is built with its
//! ICRC, parsed with its ICRC, decoded and executed, and its bytes are copied into place. Answers go the same way back.
//!
//! Limit: a payload is copied twice and hashed twice, headers are written and read once.
//!
//! `cargo run --release -p vrdma-verbs --example packet_rate` prints one line for each case.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use vrdma_verbs::attr::{Access, Address, AttrMask, QpAttr, QpState};
use vrdma_verbs::memory::{CopyFault, Fault, Memory, Spot};
use vrdma_verbs::object::{Identity, Limits, MrKeys, MrKind, MrSpec, Owner, QpId, QpSpec, QpType};
use vrdma_verbs::packet::{Frames, Link};
use vrdma_verbs::work::{Remote, SendOp, SendWr, Sge};
use vrdma_verbs::{Hca, Pace, Time};
use vrdma_wire::{Gid, MAX_FRAME, Mac, Mtu, Packet};

const RUN: Duration = Duration::from_millis(300);
const RUNS: usize = 5;
const REGION_BYTES: usize = 1 << 20;
/// Work requests outstanding.
const BATCH: usize = 32;

/// One region of one adapter.
struct Bytes(RefCell<Vec<u8>>);

fn part(bytes: &[u8], offset: u64, length: usize) -> Result<&[u8], Fault> {
    bytes
        .get(offset as usize..)
        .and_then(|rest| rest.get(..length))
        .ok_or(Fault::Gone)
}

impl Memory for Bytes {
    type Region = ();

    fn read(&self, _: &(), offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        out.copy_from_slice(part(&self.0.borrow(), offset, out.len())?);
        Ok(())
    }

    fn write(&self, _: &(), offset: u64, data: &[u8]) -> Result<(), Fault> {
        let mut bytes = self.0.borrow_mut();
        let to = bytes.get_mut(offset as usize..).ok_or(Fault::Gone)?;
        to.get_mut(..data.len())
            .ok_or(Fault::Gone)?
            .copy_from_slice(data);
        Ok(())
    }

    fn copy(
        &self,
        to: Spot<'_, ()>,
        source: &Self,
        from: Spot<'_, ()>,
        length: u64,
    ) -> Result<(), CopyFault> {
        let bytes = source.0.borrow();
        let bytes = part(&bytes, from.offset, length as usize).map_err(|_| CopyFault::Source)?;
        self.write(to.region, to.offset, bytes)
            .map_err(|_| CopyFault::Destination)
    }

    fn fetch_update(&self, _: &(), offset: u64, update: &dyn Fn(u64) -> u64) -> Result<u64, Fault> {
        let mut word = [0; 8];
        self.read(&(), offset, &mut word)?;
        let old = u64::from_le_bytes(word);
        self.write(&(), offset, &update(old).to_le_bytes())?;
        Ok(old)
    }
}

struct End {
    hca: Hca<()>,
    memory: Bytes,
    qp: QpId,
    keys: MrKeys,
    gid: Gid,
    completed: usize,
}

const LIMITS: Limits = Limits {
    pds: 2,
    mrs: 2,
    cqs: 2,
    qps: 4,
    srqs: 1,
    gids: 1,
    rd_atomic: 16,
    message_bytes: 1 << 20,
    port_mtu: Mtu::B4096,
};

impl End {
    fn new(number: u8) -> Self {
        let identity = Identity {
            mac: Mac([2, 0, 0, 0, 0, number]),
            seed: u64::from(number),
        };
        let mut hca = Hca::new(identity, LIMITS);
        let gid = Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, number));
        hca.bind_gid(0, gid).expect("the table is empty");
        let pd = hca.create_pd(Owner::KERNEL).expect("first");
        let cq = hca.create_cq(Owner::KERNEL).expect("first");
        let spec = QpSpec::new(QpType::Rc, pd, cq, cq);
        let qp = hca.create_qp(spec).expect("first");
        let spec = MrSpec {
            kind: MrKind::User,
            start: 0,
            length: REGION_BYTES as u64,
            access: Access::all(),
            region: Some(()),
        };
        let keys = hca.register(pd, spec).expect("first");
        let memory = Bytes(RefCell::new(vec![7; REGION_BYTES]));
        Self {
            hca,
            memory,
            qp,
            keys,
            gid,
            completed: 0,
        }
    }

    fn connect(&mut self, peer: Gid, dest_qpn: vrdma_wire::Qpn, mtu: Mtu) {
        let mut attr = QpAttr {
            access: Access::all(),
            port: 1,
            address: Address {
                dgid: peer,
                hop_limit: 64,
                port: 1,
                ..Address::default()
            },
            path_mtu: mtu,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            dest_qpn,
            ..QpAttr::default()
        };
        let masks = [
            (QpState::Init, 0x39),
            (QpState::Rtr, 0x12_9181),
            (QpState::Rts, 0x1_2e01),
        ];
        for (state, mask) in masks {
            attr.state = state;
            let mask = AttrMask::from_bits_retain(mask);
            self.hca
                .modify_qp(self.qp, &attr, mask)
                .expect("a valid path");
        }
    }

    /// Sends everything that may go now to the peer; returns the number of frames.
    fn transmit(&mut self, peer: &mut Self, now: Time) -> u64 {
        let link = Link {
            source: Mac([2, 0, 0, 0, 0, 1]),
            destination: Mac([2, 0, 0, 0, 0, 2]),
            vlan: None,
        };
        let mut buffer = [0; MAX_FRAME];
        let mut frames = 0;
        while let Some(id) = self.hca.next_ready() {
            while let Some(unit) = self.hca.poll_transmit(id, now, 0, &mut Pace::Wire) {
                let made = Frames::of_request(&unit, &link).expect("a packet");
                peer.receive(only(&made, &self.memory, &mut buffer), now);
                frames += 1;
            }
        }
        while let Some(reply) = self.hca.poll_reply(now, &mut Pace::Wire) {
            let made = Frames::of_reply(&reply, &link).expect("a packet");
            peer.receive(only(&made, &self.memory, &mut buffer), now);
            frames += 1;
        }
        frames
    }

    fn receive(&mut self, frame: &[u8], now: Time) {
        let packet = Packet::parse(frame).expect("intact");
        if let Some(arrival) = self.hca.decode(&packet) {
            self.hca.receive(&arrival, &self.memory, now);
        }
        while self.hca.poll_output().is_some() {
            self.completed += 1;
        }
    }
}

/// Writes the only frame of a unit into the buffer.
fn only<'b>(made: &Frames<'_, ()>, memory: &Bytes, buffer: &'b mut [u8]) -> &'b [u8] {
    let length = made.lengths().next().expect("one frame");
    let written = made.write(memory, &mut [&mut *buffer]);
    written.expect("memory is there");
    &buffer[..length]
}

fn pair(mtu: Mtu) -> [End; 2] {
    let mut ends = [End::new(1), End::new(2)];
    let names = [0, 1].map(|i: usize| (ends[i].gid, ends[i].hca.qpn(ends[i].qp).expect("made")));
    ends[0].connect(names[1].0, names[1].1, mtu);
    ends[1].connect(names[0].0, names[0].1, mtu);
    ends
}

/// Returns the CPU time of this thread, so that other load on the machine does not count.
fn cpu_seconds() -> f64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = times
        .split(' ')
        .next()
        .and_then(|word| word.parse::<f64>().ok());
    nanoseconds.expect("a number") / 1e9
}

/// Returns messages and frames for each second of this thread.
fn measure(mtu: Mtu, bytes: u32, read: bool) -> (f64, f64) {
    let [mut a, mut b] = pair(mtu);
    let remote = Remote {
        addr: 0,
        rkey: b.keys.rkey,
    };
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let (mut posted, mut frames) = (0, 0);
    while start.elapsed() < RUN {
        let now = Time(start.elapsed().as_nanos() as u64);
        while posted < a.completed + BATCH {
            let op = if read {
                SendOp::Read(remote)
            } else {
                SendOp::Write(remote)
            };
            let sge = Sge {
                addr: 0,
                length: bytes,
                lkey: a.keys.lkey,
            };
            let wr = SendWr {
                signaled: true,
                sges: [sge][..].into(),
                ..SendWr::new(1, op)
            };
            a.hca.post_send(a.qp, wr).expect("room");
            posted += 1;
        }
        frames += a.transmit(&mut b, now);
        frames += b.transmit(&mut a, now);
    }
    let seconds = cpu_seconds() - cpu;
    let retries = a.hca.counters().retries;
    if retries > 0 {
        eprintln!("went back {retries} times");
    }
    (a.completed as f64 / seconds, frames as f64 / seconds)
}

fn main() {
    let cases = [
        ("write", Mtu::B1024, 8, false),
        ("write", Mtu::B1024, 65536, false),
        ("write", Mtu::B4096, 65536, false),
        ("read", Mtu::B1024, 8, true),
        ("read", Mtu::B4096, 65536, true),
    ];
    for (name, mtu, bytes, read) in cases {
        let mut runs: Vec<_> = (0..RUNS).map(|_| measure(mtu, bytes, read)).collect();
        runs.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (messages, frames) = runs[RUNS / 2];
        let gigabytes = messages * f64::from(bytes) / 1e9;
        println!(
            "{name} of {bytes} bytes, path MTU {}: {:.2} M frames/s, {:.3} M messages/s, {gigabytes:.2} GB/s",
            mtu.bytes(),
            frames / 1e6,
            messages / 1e6,
        );
    }
}
