//! Processes that serve hosts and end at any moment: another process goes on with what was committed.
//!
//! ```text
//!   carrier's turn ── a device records ── chosen call: its process ends ──► another carrier, at the same uplinks
//!                                                                      └──► devices from their records
//! ```
//! What was not committed is lost, and so is everything that the carrier had learned or had under way. Guests and
//! uplinks stay.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fastrand::Rng;
use vrdma_driver::DeviceMember;
use vrdma_driver::notebook::{Book, Crash, Notes, open};
use vrdma_verbs::Time;

use super::Devices;
use crate::violation::Violation;

const MILLISECOND: u64 = 1_000_000;

/// Most calls of the journal until the process ends: a turn has some ten.
const CALLS_MAX: u32 = 60;

/// A process that is to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Death {
    at: Time,
    host: usize,
    /// Number of journal calls from then on until the process ends.
    calls: u32,
}

/// The journals of all hosts' processes, and which processes end.
pub(super) struct Crashes {
    pub(super) books: Vec<Book>,
    deaths: VecDeque<Death>,
    /// Processes that ended.
    pub(super) count: u64,
}

impl Crashes {
    /// Half of the seeds have some. Drawn separately, so that the other choices stay the same.
    pub(super) fn of(seed: u64, hosts: usize) -> Self {
        let mut random = Rng::with_seed(seed ^ 0xdead);
        let count = random.usize(..6) * usize::from(random.bool());
        let mut deaths: Vec<_> = (0..count)
            .map(|_| Death {
                at: Time(random.u64(..8 * MILLISECOND)),
                host: random.usize(..hosts),
                calls: random.u32(..CALLS_MAX),
            })
            .collect();
        deaths.sort_by_key(|death| death.at);
        Self {
            books: (0..hosts).map(|_| Book::default()).collect(),
            deaths: deaths.into(),
            count: 0,
        }
    }
}

impl Crashes {
    /// Lets no process end.
    pub(super) fn spare_all(&mut self) {
        self.deaths.clear();
    }
}

impl Devices {
    /// Records every device from now on, at whichever host it is.
    pub(super) fn begin_records(&mut self) {
        for guest in 0..self.cluster.places.len() {
            for host in 0..self.hosts {
                let notes = Notes::of(guest, &self.crashes.books[host]);
                self.guest_at(host, guest).device.record_to(notes);
            }
        }
        self.commit_records();
    }

    /// Commits, as the daemon does before it answers a request that changed a device.
    pub(super) fn commit_records(&self) {
        for book in &self.crashes.books {
            open(book).commit();
        }
    }

    /// Records a guest's device anew, since another device takes its place here.
    pub(super) fn record_anew(&mut self, host: usize, guest: usize) {
        let book = Book::clone(&self.crashes.books[host]);
        let device = &mut self.guest_at(host, guest).device;
        device.stop_recording();
        open(&book).forget(guest);
        device.record_to(Notes::of(guest, &book));
        open(&book).commit();
    }

    /// Makes processes whose time has come end at the chosen call.
    pub(super) fn arm(&mut self) {
        let now = self.cluster.now;
        while self.crashes.deaths.front().is_some_and(|it| it.at <= now) {
            if let Some(death) = self.crashes.deaths.pop_front() {
                open(&self.crashes.books[death.host]).left = Some(death.calls);
            }
        }
    }

    /// Does work that is not the carriers', and that the daemon commits before it answers.
    pub(super) fn disarmed(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let take = |book: &Book| open(book).left.take();
        let left: Vec<Option<u32>> = self.crashes.books.iter().map(take).collect();
        work(self)?;
        self.commit_records();
        for (book, left) in self.crashes.books.iter().zip(left) {
            open(book).left = left;
        }
        Ok(())
    }

    /// Does work of the carriers alone, however often their processes end meanwhile.
    pub(super) fn carried(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        loop {
            let armed: Vec<bool> = (self.crashes.books.iter())
                .map(|book| open(book).left.is_some())
                .collect();
            let outcome = catch_unwind(AssertUnwindSafe(|| work(self)));
            match outcome {
                Ok(outcome) => return outcome,
                Err(cause) if cause.is::<Crash>() => {}
                Err(cause) => resume_unwind(cause),
            }
            let ended = (0..self.hosts)
                .find(|host| armed[*host] && open(&self.crashes.books[*host]).left.is_none());
            let host = ended.ok_or_else(|| Violation::new("nobody was to end"))?;
            self.follow(host)?;
        }
    }

    /// Makes another process serve a host.
    fn follow(&mut self, host: usize) -> Result<(), Violation> {
        self.crashes.count += 1;
        self.cluster
            .say(|| format!("the process of host {host} ends, and another one goes on"));
        let book = Book::clone(&self.crashes.books[host]);
        open(&book).batch.clear();
        // A device that was frozen goes on: the migration that waits for its context is given up.
        for guest in 0..self.stops.len() {
            if self.cluster.places[guest].host == host {
                self.stops[guest] = None;
            }
        }
        self.cluster.restart(host, |guest, member| {
            let records = open(&book).records_of(guest);
            let mut guest_of = member.guest;
            let notes = Notes::of(guest, &book);
            let revived = guest_of.revive(&records, Some(notes));
            revived.map_err(Violation::from_error)?;
            Ok(DeviceMember::new(guest_of))
        })
    }
}
