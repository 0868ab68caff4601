//! Processes that serve hosts and end at any moment: another one goes on with what was committed.
//!
//! ```text
//!   carrier's turn ── a device writes down ── the call that was named: the process ends ──► another carrier, at the same uplinks
//!                                                                                      └──► devices from their records
//! ```
//! What was not committed is gone, and so is all that the carrier had learned or had under way. Guests and uplinks stay.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fastrand::Rng;
use vrdma_driver::DeviceMember;
use vrdma_driver::notebook::{Book, Crash, Notes, open};
use vrdma_verbs::Time;

use super::Devices;
use crate::violation::Violation;

const MILLISECOND: u64 = 1_000_000;

/// Calls of the journal until the process ends, at most: a turn has some ten.
const CALLS_MAX: u32 = 60;

/// A process that is to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Death {
    at: Time,
    host: usize,
    /// The first so many times that something is written down from then on.
    calls: u32,
}

/// The notebooks of all hosts' processes, and which of them end.
pub(super) struct Crashes {
    pub(super) books: Vec<Book>,
    deaths: VecDeque<Death>,
    /// Processes that ended.
    pub(super) count: u64,
}

impl Crashes {
    /// Half of the seeds have some. Drawn apart, so that the others are what they were.
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
    /// No process ends.
    pub(super) fn spare_all(&mut self) {
        self.deaths.clear();
    }
}

impl Devices {
    /// Every device is written down from now on, wherever it is.
    pub(super) fn begin_records(&mut self) {
        for guest in 0..self.cluster.places.len() {
            for host in 0..self.hosts {
                let notes = Notes::of(guest, &self.crashes.books[host]);
                self.guest_at(host, guest).device.record_to(notes);
            }
        }
        self.commit_records();
    }

    /// As the daemon does before it answers whoever changed a device.
    pub(super) fn commit_records(&self) {
        for book in &self.crashes.books {
            open(book).commit();
        }
    }

    /// The device of a guest is another one here from now on.
    pub(super) fn record_anew(&mut self, host: usize, guest: usize) {
        let book = Book::clone(&self.crashes.books[host]);
        let device = &mut self.guest_at(host, guest).device;
        device.stop_recording();
        open(&book).forget(guest);
        device.record_to(Notes::of(guest, &book));
        open(&book).commit();
    }

    /// Processes whose time has come end at the next call that was named.
    pub(super) fn arm(&mut self) {
        let now = self.cluster.now;
        while self.crashes.deaths.front().is_some_and(|it| it.at <= now) {
            if let Some(death) = self.crashes.deaths.pop_front() {
                open(&self.crashes.books[death.host]).left = Some(death.calls);
            }
        }
    }

    /// Does something that is not the carriers' doing, and that the daemon commits before it says so.
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

    /// Does something that only the carriers do, however often they end meanwhile.
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

    /// Another process serves a host.
    fn follow(&mut self, host: usize) -> Result<(), Violation> {
        self.crashes.count += 1;
        self.cluster
            .say(|| format!("the process of host {host} ends, and another one goes on"));
        let book = Book::clone(&self.crashes.books[host]);
        open(&book).batch.clear();
        // A device goes on that was frozen: whoever waits for its context gives up.
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
