//! The end of a run: nothing is missing, nothing is left over, nothing more comes.

use vrdma_verbs::counters::{Counters, Counts, Traffic};

use crate::build::OWNER;
use crate::end::{End, Op, pattern};
use crate::owner::LENGTH_MAX;
use crate::violation::{Violation, check};
use crate::world::World;

/// Most requests that a READ of the longest message takes: one for each packet at the smallest MTU.
const READ_REQUESTS_MAX: u64 = LENGTH_MAX.div_ceil(256) as u64;

impl World {
    pub(crate) fn finish(&mut self) -> Result<(), Violation> {
        for end in &self.ends {
            self.judge_end(end)?;
        }
        for number in 0..self.cluster.places.len() {
            self.judge_adapter(number)?;
        }
        self.close()
    }

    /// Checks that everything that was posted is done, and the memory that it touched is intact.
    fn judge_end(&self, end: &End) -> Result<(), Violation> {
        let (number, done, posted) = (end.number, end.done, end.works.len());
        check(end.is_finished(), || {
            format!(
                "deadlock: e{number} has done {done} of {posted} requests and nothing moves any more"
            )
        })?;
        let unharmed = end.failed.is_none() && self.ends[end.peer].failed.is_none();
        if end.is_reliable() && unharmed {
            let (arrived, sent) = (end.arrived, end.messages.len());
            check(arrived == sent, || {
                format!("{arrived} of {sent} messages of e{number} arrived")
            })?;
        }
        self.judge_word(end)?;
        let peer = &self.ends[end.peer];
        let memory = &self.cluster.memories[peer.adapter];
        for (at, work) in end
            .works
            .iter()
            .enumerate()
            .filter(|(_, work)| work.op.is_write())
        {
            let expected = pattern(number, at).take(work.length as usize);
            let torn = memory.torn(peer.target.region, work.remote, expected);
            check(torn.is_none(), || {
                format!("request {at} of e{number} wrote a wrong byte at {torn:?}")
            })?;
        }
        Ok(())
    }

    /// Checks that every atomic that succeeded was done, and no more than were posted.
    fn judge_word(&self, end: &End) -> Result<(), Violation> {
        let peer = &self.ends[end.peer];
        let word = self.cluster.memories[peer.adapter].word(peer.target.region, peer.word);
        let done = end.atomics_done;
        let before = if done == 0 { 0 } else { end.words[done - 1] };
        let possible = word == before || end.failed.is_some() && end.words[done..].contains(&word);
        check(possible, || {
            format!(
                "the word of e{} is {word} after {done} atomics, and {before} is right",
                end.number
            )
        })
    }

    fn judge_adapter(&mut self, number: usize) -> Result<(), Violation> {
        let guard = self.cluster.memories[number].broken_guard();
        check(guard.is_none(), || {
            format!("somebody wrote between the buffers of a{number}: {guard:?}")
        })?;
        let dropped = self.cluster.dropped(number);
        check(dropped.is_none(), || {
            format!("the host of a{number} drops what it sends: {dropped:?}")
        })?;
        let ends = || self.ends.iter().filter(|end| end.adapter == number);
        if ends().any(|end| end.failed.is_some()) {
            return Ok(());
        }
        let mut asked = Traffic::default();
        for work in ends().flat_map(|end| end.works.iter().map(move |work| (end, work))) {
            count(&mut asked, work.0, work.1.op, work.1.length);
        }
        self.judge_received(number)?;
        let counted = self.counters(number).sent;
        check(counted == asked, || {
            format!("a{number} counts {counted:?} and was asked for {asked:?}")
        })
    }

    fn counters(&mut self, number: usize) -> Counters {
        *self.cluster.hca(number).counters()
    }

    /// Checks that requests of peers were counted once, where nothing may get lost. Data of READs counts at the
    /// requester's side alone, and a long READ takes several requests.
    fn judge_received(&mut self, number: usize) -> Result<(), Violation> {
        let mut given = Traffic::default();
        for end in self.ends.iter().filter(|end| end.adapter == number) {
            let peer = &self.ends[end.peer];
            if !end.is_reliable() || peer.failed.is_some() {
                return Ok(());
            }
            for work in &peer.works {
                let length = if work.op == Op::Read { 0 } else { work.length };
                count(&mut given, peer, work.op, length);
            }
        }
        let counted = self.counters(number).received;
        given.reads = given
            .reads
            .max(counted.reads.min(READ_REQUESTS_MAX * given.reads));
        check(counted == given, || {
            format!("a{number} counts {counted:?} from its peers, who asked for {given:?}")
        })
    }

    /// Lets owners leave: everything is flushed, then destroyed, and nothing remains.
    fn close(&mut self) -> Result<(), Violation> {
        for end in 0..self.ends.len() {
            self.abort(end)?;
            self.judge_outputs()?;
        }
        for pool in self.pools.iter().filter(|pool| !pool.shared) {
            let (done, posted) = (pool.done, pool.receives.len());
            check(done == posted, || {
                format!(
                    "{} receives of a{} were never given back",
                    posted - done,
                    pool.adapter
                )
            })?;
        }
        for number in 0..self.cluster.places.len() {
            let hca = self.cluster.hca(number);
            hca.destroy_owner(OWNER);
            let left = hca.counts();
            check(left == Counts::default(), || {
                format!("a{number} still has {left:?}")
            })?;
        }
        self.cluster.run_until_quiet()?;
        let late = self.cluster.log.next_output();
        check(late.is_none(), || {
            format!("after everything is destroyed comes {late:?}")
        })
    }
}

fn count(traffic: &mut Traffic, end: &End, op: Op, length: u32) {
    let kind = match op {
        _ if !end.kind.is_connected() => &mut traffic.datagrams,
        Op::Send | Op::SendImm => &mut traffic.sends,
        Op::Write | Op::WriteImm => &mut traffic.writes,
        Op::Read => &mut traffic.reads,
        Op::FetchAdd(_) | Op::CompareSwap(..) => &mut traffic.atomics,
    };
    *kind += 1;
    if !op.is_atomic() {
        traffic.bytes += u64::from(length);
    }
}
