//! The owners of queue pairs: now and then they post a few requests and receives.

use vrdma_verbs::attr::{AttrMask, QpAttr, QpState};
use vrdma_verbs::object::QpType;
use vrdma_verbs::work::{Datagram, RecvWr, Remote, SendWr, Sge, SgeList, Status};
use vrdma_verbs::{INLINE_MAX, Time};

use crate::build::QKEY;
use crate::end::{End, LABEL_BYTES, Op, RECEIVE, Receive, Work, address_of, pattern, send_op};
use crate::violation::Violation;
use crate::world::World;

/// Bytes reserved for the IP header in front of a datagram (IBTA 11.4.1.2).
pub(crate) const GRH_BYTES: u32 = 40;

/// Bytes of the longest message.
pub(crate) const LENGTH_MAX: u32 = 24_000;

/// Bytes of every receive: the longest message, and the header area of a datagram.
const RECEIVE_BYTES: u32 = LENGTH_MAX + GRH_BYTES;

impl World {
    pub(crate) fn take_turns(&mut self) -> Result<(), Violation> {
        for end in 0..self.ends.len() {
            if self.turns[end].is_some_and(|at| at <= self.cluster.now) {
                self.turns[end] = None;
                self.take_turn(end)?;
            }
        }
        Ok(())
    }

    fn take_turn(&mut self, end: usize) -> Result<(), Violation> {
        self.post_receives(end)?;
        let batch = self.random.usize(..8);
        for _ in 0..batch {
            let End {
                adapter,
                qp,
                quota,
                ref works,
                failed,
                ..
            } = self.ends[end];
            let room = self.cluster.hca(adapter).send_room(qp) > 0;
            if failed.is_none() && room && works.len() < quota {
                self.post(end)?;
            }
        }
        let peer = self.ends[end].peer;
        let goes_on = [end, peer].iter().any(|&end| !self.ends[end].is_finished());
        let pause = 1 + self.random.u64(..2 * self.plan.pause_ns);
        self.turns[end] = goes_on.then(|| Time(self.cluster.now.0 + pause));
        Ok(())
    }

    fn post_receives(&mut self, end: usize) -> Result<(), Violation> {
        let number = self.ends[end].pool;
        let pool = &self.pools[number];
        let missing = pool.depth.saturating_sub(pool.receives.len() - pool.done);
        let count = if missing > 0 {
            self.random.usize(..=missing)
        } else {
            0
        };
        let gone = !pool.shared && self.ends[end].failed.is_some();
        for _ in 0..if gone { 0 } else { count } {
            self.post_receive(number, end)?;
        }
        Ok(())
    }

    fn post_receive(&mut self, number: usize, end: usize) -> Result<(), Violation> {
        let pool = &mut self.pools[number];
        let length = RECEIVE_BYTES;
        let memory = &self.cluster.memories[pool.adapter];
        let fresh = || memory.slot(pool.buffer.region, length);
        let slot = pool.free.pop().unwrap_or_else(fresh);
        let id = RECEIVE | (number as u64) << 32 | pool.receives.len() as u64;
        let sges = cut(&mut self.random, pool.buffer.sge(slot, length));
        let wr = RecvWr { id, sges: Ok(sges) };
        pool.receives.push(Receive { slot, done: false });
        let hca = self.cluster.hca(pool.adapter);
        let posted = match self.srqs.get(&number) {
            Some(&srq) => hca.post_srq_recv(srq, wr),
            None => hca.post_recv(self.ends[end].qp, wr),
        };
        posted.map_err(Violation::from_error)
    }

    fn post(&mut self, number: usize) -> Result<(), Violation> {
        let work = self.make(number);
        let end = &mut self.ends[number];
        let at = end.works.len();
        let peer = &self.ends[self.ends[number].peer];
        let remote_address = match work.op.is_atomic() {
            true => address_of(peer.target.region, peer.word),
            false => address_of(peer.target.region, work.remote),
        };
        let remote = Remote {
            addr: remote_address,
            rkey: peer.target.keys.rkey,
        };
        let datagram = (self.ends[number].kind == QpType::Ud).then(|| self.datagram(number));
        let end = &self.ends[number];
        let mut wr = SendWr::new(end.wr_id(at), send_op(work.op, at, remote));
        if work.inline {
            let bytes: Vec<u8> = pattern(number, at).take(work.length as usize).collect();
            wr.inline = Some(bytes[..].into());
        } else {
            wr.sges = cut(&mut self.random, end.local.sge(work.local, work.length));
        }
        wr.signaled = work.signaled;
        wr.fence = self.random.u8(..8) == 0;
        wr.solicited = self.random.u8(..8) == 0;
        wr.datagram = datagram;
        let (adapter, qp) = (end.adapter, end.qp);
        self.cluster.say(|| {
            format!(
                "e{number} posts {at}: {:?} of {} bytes",
                work.op, work.length
            )
        });
        self.ends[number].works.push(work);
        let posted = self.cluster.hca(adapter).post_send(qp, wr);
        posted.map_err(Violation::from_error)
    }

    fn datagram(&self, number: usize) -> Datagram {
        let end = &self.ends[number];
        let peer = &self.ends[end.peer];
        let gids = self.cluster.places[end.adapter].gids;
        let sgid_index = gids.iter().position(|gid| *gid == end.name.gid);
        Datagram {
            qpn: peer.name.qpn,
            qkey: QKEY,
            address: self.address(peer, sgid_index.unwrap_or(0)),
        }
    }

    /// Chooses a request and prepares its bytes on both sides.
    fn make(&mut self, number: usize) -> Work {
        let op = self.choose(number);
        let length = if op.is_atomic() {
            8
        } else {
            self.length(number, op)
        };
        let end = &mut self.ends[number];
        let at = end.works.len();
        let memory = &self.cluster.memories[end.adapter];
        let local = memory.slot(end.local.region, length);
        let sends = op.takes_receive() || op.is_write();
        let inline = sends && length <= INLINE_MAX as u32 && self.random.u8(..4) == 0;
        if sends && !inline {
            memory.fill(
                end.local.region,
                local,
                pattern(number, at).take(length as usize),
            );
        }
        let word_before = end.words.last().copied().unwrap_or(0);
        match op {
            Op::FetchAdd(add) => end.words.push(word_before.wrapping_add(add)),
            Op::CompareSwap(compare, swap) if compare == word_before => end.words.push(swap),
            Op::CompareSwap(..) => end.words.push(word_before),
            _ => {}
        }
        let message = end.messages.len();
        if op.takes_receive() {
            end.messages.push(at);
        }
        let remote = self.remote_slot(number, op, length);
        Work {
            op,
            length,
            local,
            remote,
            signaled: self.random.bool(),
            inline,
            word_before,
            message,
        }
    }

    fn remote_slot(&mut self, number: usize, op: Op, length: u32) -> u64 {
        if !(op.is_write() || op == Op::Read) {
            return 0;
        }
        let at = self.ends[number].works.len();
        let peer = &self.ends[self.ends[number].peer];
        let memory = &self.cluster.memories[peer.adapter];
        let slot = memory.slot(peer.target.region, length);
        if op == Op::Read {
            memory.fill(
                peer.target.region,
                slot,
                pattern(number, at).take(length as usize),
            );
        }
        slot
    }

    fn choose(&mut self, number: usize) -> Op {
        let random = &mut self.random;
        let end = &self.ends[number];
        let word = end.words.last().copied().unwrap_or(0);
        let kinds = match end.kind {
            QpType::Rc => 7,
            QpType::Uc => 4,
            _ => 2,
        };
        match random.u8(..kinds) {
            0 => Op::Send,
            1 => Op::SendImm,
            2 => Op::Write,
            3 => Op::WriteImm,
            4 => Op::Read,
            5 => Op::FetchAdd(random.u64(..1000)),
            _ => Op::CompareSwap(word + u64::from(random.u8(..4) == 0), random.u64(..1000)),
        }
    }

    /// Chooses a length, mostly near a multiple of a packet's. Unreliable messages are not acknowledged, so they carry
    /// their name.
    fn length(&mut self, number: usize, op: Op) -> u32 {
        let random = &mut self.random;
        let end = &self.ends[number];
        // On a wire the READ goes in slices, some of which may be done when the peer moves.
        if op == Op::Read && random.bool() {
            return random.u32(LENGTH_MAX / 2..LENGTH_MAX);
        }
        let packets = end.mtu_bytes * random.u32(..4);
        let length = match random.u8(..8) {
            0 => random.u32(..=16),
            1..=4 => (packets + 4).saturating_sub(random.u32(..=8)),
            5 | 6 => random.u32(..LENGTH_MAX / 8),
            _ => random.u32(..LENGTH_MAX),
        };
        match end.kind {
            QpType::Rc => length.min(LENGTH_MAX),
            QpType::Ud => length.clamp(LABEL_BYTES, 4096),
            _ => length.clamp(LABEL_BYTES, LENGTH_MAX),
        }
    }

    /// Lets the owner give a queue pair up; everything posted comes back flushed.
    pub(crate) fn abort(&mut self, number: usize) -> Result<(), Violation> {
        let End {
            adapter,
            qp,
            failed,
            ..
        } = self.ends[number];
        if failed.is_some() {
            return Ok(());
        }
        self.cluster.say(|| format!("e{number} is taken to ERR"));
        self.ends[number].failed = Some(Status::WrFlush);
        let attr = QpAttr {
            state: QpState::Err,
            ..QpAttr::default()
        };
        let modified = self
            .cluster
            .hca(adapter)
            .modify_qp(qp, &attr, AttrMask::STATE);
        modified.map_err(Violation::from_error)?;
        self.cluster.run_until_quiet()
    }
}

/// Cuts a buffer into one to three pieces.
fn cut(random: &mut fastrand::Rng, whole: Sge) -> SgeList {
    let mut pieces = SgeList::new();
    let mut rest = whole;
    for _ in 0..random.u8(..3) {
        if rest.length > 1 {
            let length = random.u32(1..rest.length);
            pieces.push(Sge { length, ..rest });
            rest.addr += u64::from(length);
            rest.length -= length;
        }
    }
    pieces.push(rest);
    pieces
}
