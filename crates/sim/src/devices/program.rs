//! Programs in guests. Each request has a number, its bytes are a function of the number, and each is done once and in
//! order.

use vrdma_driver::Ram;
use vrdma_driver::object::{Buffer, Completion, Cq, Mr, Qp};
use vrdma_driver::work::SendWork;
use vrdma_pvrdma::abi::event::EventCode;
use vrdma_verbs::Time;

use super::Devices;
use crate::violation::{Violation, check};

/// Most requests, and most receives, that a program has under way.
pub(super) const SLOTS: usize = 16;
const SLOT_BYTES: u64 = 6000;
const AREA_BYTES: u64 = SLOTS as u64 * SLOT_BYTES;
const SUCCESS: u32 = 0;

/// Bytes of the areas of a buffer, and of the word for atomics behind them.
pub(super) const BUFFER_BYTES: u64 = 4 * AREA_BYTES + 8;

/// The use of a part of a buffer.
#[derive(Clone, Copy)]
enum Area {
    /// Sent from, and read into.
    Out,
    /// Received into.
    In,
    /// Written to by the peer.
    Target,
    /// Read by the peer, and never changed.
    Source,
}

fn place(area: Area, number: usize) -> u64 {
    area as u64 * AREA_BYTES + (number % SLOTS) as u64 * SLOT_BYTES
}

const WORD: u64 = 4 * AREA_BYTES;

#[derive(Clone, Copy, Debug)]
enum Op {
    Send,
    Write,
    Read,
    Add,
}

#[derive(Clone, Copy, Debug)]
struct Work {
    op: Op,
    length: u32,
    /// Number of additions before this one.
    adds: u64,
}

pub(super) struct Program {
    number: usize,
    peer: usize,
    pub(super) guest: usize,
    quota: usize,
    pub(super) qp: Qp,
    send_cq: Cq,
    recv_cq: Cq,
    buffer: Buffer,
    mr: Mr,
    works: Vec<Work>,
    pub(super) done: usize,
    /// Works that take a receive of the peer, in order.
    sends: Vec<usize>,
    receives: usize,
    pub(super) arrived: usize,
    adds: u64,
}

/// The number of a program, its peer, and what it has to do.
#[derive(Clone, Copy)]
pub(super) struct Role {
    pub(super) number: usize,
    /// The number of the program at the other end.
    pub(super) peer: usize,
    pub(super) guest: usize,
    /// Number of requests.
    pub(super) quota: usize,
}

/// The objects that it works with.
pub(super) struct Objects {
    pub(super) qp: Qp,
    pub(super) send_cq: Cq,
    pub(super) recv_cq: Cq,
    pub(super) buffer: Buffer,
    pub(super) mr: Mr,
}

/// Returns the seed of a program buffer's initial content.
pub(super) fn source_seed(program: usize) -> u64 {
    (program as u64 + 1) << 48
}

/// Returns the bytes of a request. A pattern of the driver differs by place, this one also by program and number.
fn payload(program: usize, work: usize, length: u32) -> Vec<u8> {
    let seed = (program as u64 + 1) << 32 | (work as u64 + 1) << 17;
    vrdma_driver::object::pattern(seed, length as usize)
}

impl Program {
    pub(super) fn new(role: Role, objects: Objects) -> Self {
        let Role {
            number,
            peer,
            guest,
            quota,
        } = role;
        let Objects {
            qp,
            send_cq,
            recv_cq,
            buffer,
            mr,
        } = objects;
        Self {
            number,
            peer,
            guest,
            quota,
            qp,
            send_cq,
            recv_cq,
            buffer,
            mr,
            works: Vec::new(),
            done: 0,
            sends: Vec::new(),
            receives: 0,
            arrived: 0,
            adds: 0,
        }
    }

    pub(super) fn clear_word(&self, ram: &Ram) {
        self.buffer.write(ram, WORD, &[0; 8]);
    }

    pub(super) fn is_finished(&self) -> bool {
        self.done == self.quota
    }

    pub(super) fn describe(&self) -> String {
        let Self {
            number,
            done,
            quota,
            works,
            ..
        } = self;
        let posted = works.len();
        format!("e{number} has posted {posted} and done {done} of {quota}")
    }

    fn address(&self, offset: u64) -> u64 {
        self.buffer.address + offset
    }
}

impl Devices {
    pub(super) fn take_turns(&mut self) -> Result<(), Violation> {
        for program in 0..self.programs.len() {
            let due = self.turns[program].is_some_and(|at| at <= self.cluster.now);
            if due {
                self.take_turn(program)?;
            }
        }
        Ok(())
    }

    fn take_turn(&mut self, number: usize) -> Result<(), Violation> {
        let pause = 1 + self.random.u64(..2 * self.pause_ns);
        let peer = self.programs[number].peer;
        let over = [number, peer]
            .iter()
            .all(|&it| self.programs[it].is_finished());
        self.turns[number] = (!over).then(|| Time(self.cluster.now.0 + pause));
        let guest = self.programs[number].guest;
        if self.stops[guest].is_some() {
            return Ok(());
        }
        let events = self.guest(guest).take_events();
        let harmless =
            |code: &EventCode| matches!(code, EventCode::CommEst | EventCode::PortActive);
        let bad = events.iter().find(|(code, _)| !harmless(code));
        check(bad.is_none(), || format!("a{guest} is told of {bad:?}"))?;
        for _ in 0..self.random.usize(..8) {
            let program = &self.programs[number];
            if program.receives - program.arrived < SLOTS {
                self.post_receive(number)?;
            }
        }
        for _ in 0..self.random.usize(..8) {
            let program = &self.programs[number];
            let room = program.works.len() - program.done < SLOTS;
            if room && program.works.len() < program.quota {
                self.post(number)?;
            }
        }
        Ok(())
    }

    fn post_receive(&mut self, number: usize) -> Result<(), Violation> {
        let program = &mut self.programs[number];
        let id = program.receives;
        program.receives += 1;
        let at = program.address(place(Area::In, id));
        let sge = program.mr.sge(at, SLOT_BYTES as u32);
        let (guest, qp) = (program.guest, program.qp.clone());
        let posted = self.guest(guest).post_recv(&qp, id as u64, &[sge]);
        posted.map_err(Violation::from_error)
    }

    fn post(&mut self, number: usize) -> Result<(), Violation> {
        let op = [Op::Send, Op::Send, Op::Write, Op::Read, Op::Add][self.random.usize(..5)];
        let length = match op {
            Op::Add => 8,
            _ => self.random.u32(1..=SLOT_BYTES as u32),
        };
        let peer = &self.programs[self.programs[number].peer];
        let program = &self.programs[number];
        let at = program.works.len();
        let out = place(Area::Out, at);
        let bytes = match op {
            Op::Send | Op::Write => payload(number, at, length),
            Op::Read | Op::Add => vec![0; length as usize],
        };
        let remote = |offset| peer.mr.at(peer.address(offset));
        let id = at as u64;
        let request = match op {
            Op::Send => SendWork::send(id),
            Op::Write => {
                let (addr, rkey) = remote(place(Area::Target, at));
                SendWork::write(id, addr, rkey)
            }
            Op::Read => {
                let (addr, rkey) = remote(place(Area::Source, at));
                SendWork::read(id, addr, rkey)
            }
            Op::Add => {
                let (addr, rkey) = remote(WORD);
                SendWork::fetch_add(id, addr, rkey, 1)
            }
        };
        let request = request.sge(program.mr.sge(program.address(out), length));
        let (guest, qp) = (program.guest, program.qp.clone());
        let ram = &self.seen(guest).ram;
        program.buffer.write(ram, out, &bytes);
        self.cluster
            .say(|| format!("e{number} posts {at}: {op:?} of {length} bytes"));
        let program = &mut self.programs[number];
        let adds = program.adds;
        match op {
            Op::Send => program.sends.push(at),
            Op::Add => program.adds += 1,
            Op::Write | Op::Read => {}
        }
        program.works.push(Work { op, length, adds });
        let posted = self.guest(guest).post_send(&qp, &request);
        posted.map_err(Violation::from_error)
    }

    /// Takes what running guests find in their completion queues, without making their devices run.
    pub(super) fn judge(&mut self) -> Result<(), Violation> {
        for number in 0..self.programs.len() {
            let guest = self.programs[number].guest;
            if self.stops[guest].is_some() {
                continue;
            }
            while let Some(entry) = self.seen(guest).peek_entry(&self.programs[number].recv_cq) {
                self.judge_arrival(number, &Completion::from(&entry))?;
            }
            while let Some(entry) = self.seen(guest).peek_entry(&self.programs[number].send_cq) {
                self.judge_done(number, &Completion::from(&entry))?;
            }
        }
        Ok(())
    }

    fn judge_done(&mut self, number: usize, completion: &Completion) -> Result<(), Violation> {
        let program = &self.programs[number];
        let at = program.done;
        let right = completion.id == at as u64 && completion.status == SUCCESS;
        let posted = program.works.get(at).filter(|_| right);
        let Some(&Work { op, length, adds }) = posted else {
            return Err(Violation::new(format!(
                "e{number} has {completion:?}, where request {at} is next"
            )));
        };
        let (holder, area, expected) = match op {
            Op::Send => (number, Area::Out, payload(number, at, length)),
            Op::Write => (program.peer, Area::Target, payload(number, at, length)),
            Op::Read => (number, Area::Out, self.source(program.peer, at, length)),
            Op::Add => (number, Area::Out, adds.to_le_bytes().to_vec()),
        };
        let is = self.bytes(holder, place(area, at), length);
        check(is == expected, || {
            format!("e{number} has done {at}, a {op:?}, and its bytes are others")
        })?;
        self.programs[number].done += 1;
        Ok(())
    }

    fn judge_arrival(&mut self, number: usize, completion: &Completion) -> Result<(), Violation> {
        let program = &self.programs[number];
        let at = program.arrived;
        let sender = &self.programs[program.peer];
        let right = completion.id == at as u64 && completion.status == SUCCESS;
        let Some(&work) = sender.sends.get(at).filter(|_| right) else {
            return Err(Violation::new(format!(
                "e{number} receives {completion:?}, where message {at} is next"
            )));
        };
        let length = sender.works[work].length;
        let is = self.bytes(number, place(Area::In, at), length);
        let expected = payload(program.peer, work, length);
        check(completion.byte_len == length && is == expected, || {
            format!(
                "e{number} receives another message than e{}'s {work}",
                program.peer
            )
        })?;
        self.programs[number].arrived += 1;
        Ok(())
    }

    fn bytes(&self, number: usize, offset: u64, length: u32) -> Vec<u8> {
        let program = &self.programs[number];
        let ram = &self.seen(program.guest).ram;
        program.buffer.read(ram, offset, length as usize)
    }

    /// Returns what a READ of a slot brings.
    fn source(&self, number: usize, at: usize, length: u32) -> Vec<u8> {
        let whole = vrdma_driver::object::pattern(source_seed(number), BUFFER_BYTES as usize);
        let start = place(Area::Source, at) as usize;
        whole[start..start + length as usize].to_vec()
    }

    /// Checks that everything arrived, and every addition was done once.
    pub(super) fn finish(&mut self) -> Result<(), Violation> {
        self.judge()?;
        for (number, program) in self.programs.iter().enumerate() {
            let peer = &self.programs[program.peer];
            let sent = peer.sends.len();
            check(program.arrived == sent, || {
                format!(
                    "{sent} messages were sent to e{number}, and {} came",
                    program.arrived
                )
            })?;
            let word = self.bytes(number, WORD, 8);
            check(word == peer.adds.to_le_bytes(), || {
                format!(
                    "the word of e{number} is {word:?} after {} additions",
                    peer.adds
                )
            })?;
        }
        Ok(())
    }
}
