//! READs and atomics that were sent and have incomplete answers.
//!
//! ```text
//!   requests   [ READ: 64 packets        ][ atomic ][ READ ]     in the order of their PSNs
//!   missing      [20..22)  [40..64)         [64..65)  [65..97)
//!                 lost      on its way
//! ```
//!
//! Data may come out of order. Data that is missing before it was lost or overtaken, and only that is asked for again,
//! as a repeated request for part of the first one (IBTA 9.4.4). An answer to anything sent after a request for the
//! same PSNs shows that they were lost, too: responders answer in order (IBTA 9.7.3, "implied NAK").

use alloc::collections::VecDeque;

use smallvec::SmallVec;
use vrdma_wire::Psn;

/// Most pieces of one request that may be missing at a time; with more, data out of order is not kept.
const HOLES_MAX: usize = 16;

/// A range of PSNs without data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hole {
    pub(crate) begin: Psn,
    /// PSN after the last one.
    pub(crate) end: Psn,
    /// PSN whose answer, as any later one, comes after the data, unless the data was lost.
    asked: Psn,
    /// Whether the data has to be asked for again.
    lost: bool,
}

impl Hole {
    fn contains(&self, psn: Psn) -> bool {
        psn.since(self.begin) < self.end.since(self.begin)
    }
}

#[derive(Clone, Debug)]
struct Asked {
    begin: Psn,
    missing: SmallVec<[Hole; 1]>,
}

/// All READs and atomics that the peer has to remember. A finished request stays until those before it are finished:
/// the peer remembers only as many as were agreed, counted from the newest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Awaiting {
    requests: VecDeque<Asked>,
    /// Whether there are holes to ask for again.
    lost: bool,
}

impl Awaiting {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the number of requests that the peer has to remember.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lost
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds a request for these PSNs, which was sent.
    pub(crate) fn push(&mut self, begin: Psn, end: Psn) {
        let hole = Hole {
            begin,
            end,
            asked: end,
            lost: false,
        };
        debug_assert!(begin.is_before(end), "a request for no data");
        debug_assert!(
            self.requests
                .back()
                .is_none_or(|last| last.begin.is_before(begin)),
            "requests are sent in their order"
        );
        let missing = SmallVec::from_buf([hole]);
        self.requests.push_back(Asked { begin, missing });
    }

    /// Returns the first PSN without data.
    #[inline]
    pub(crate) fn first_missing(&self) -> Option<Psn> {
        let oldest = self.requests.front()?;
        oldest.missing.first().map(|hole| hole.begin)
    }

    /// Returns the begin and the end of the first hole.
    pub(crate) fn first_hole(&self) -> Option<(Psn, Psn)> {
        let oldest = self.requests.front()?;
        oldest.missing.first().map(|hole| (hole.begin, hole.end))
    }

    /// Returns the hole that holds a PSN: mostly the first hole, which begins there.
    #[inline]
    pub(crate) fn hole_at(&self, psn: Psn) -> Option<Hole> {
        let first = self.requests.front()?.missing.first();
        match first.filter(|hole| hole.begin == psn) {
            Some(hole) => Some(*hole),
            None => self.search(psn),
        }
    }

    fn search(&self, psn: Psn) -> Option<Hole> {
        let mut holes = self.requests.iter().flat_map(|request| &request.missing);
        holes.find(|hole| hole.contains(psn)).copied()
    }

    /// Notes that an answer to a PSN has come: holes asked for before are lost.
    #[inline]
    pub(crate) fn pass(&mut self, psn: Psn) {
        let oldest = self.requests.front();
        if oldest.is_some_and(|request| request.begin.is_before(psn)) {
            self.pass_some(psn);
        }
    }

    fn pass_some(&mut self, psn: Psn) {
        for request in &mut self.requests {
            if !request.begin.is_before(psn) {
                return;
            }
            for hole in &mut request.missing {
                if !psn.is_before(hole.asked) && !hole.lost {
                    hole.lost = true;
                    self.lost = true;
                }
            }
        }
    }

    /// Whether data for these PSNs, which begin in a hole, can be kept.
    #[inline]
    pub(crate) fn takes(&self, hole: &Hole, psn: Psn, end: Psn) -> bool {
        hole.begin == psn && !hole.end.is_before(end) || self.takes_later(psn, end)
    }

    fn takes_later(&self, psn: Psn, end: Psn) -> bool {
        let holding = |request: &&Asked| request.missing.iter().any(|hole| hole.contains(psn));
        let Some(request) = self.requests.iter().find(holding) else {
            return false;
        };
        let whole = |hole: &Hole| hole.contains(psn) && !hole.end.is_before(end);
        let next = request.missing.iter().any(|hole| hole.begin == psn);
        request.missing.iter().any(whole) && (next || request.missing.len() < HOLES_MAX)
    }

    /// Takes in data for these PSNs, which lie in one hole: mostly at the begin of the first hole.
    #[inline]
    pub(crate) fn take(&mut self, psn: Psn, end: Psn) {
        match self.requests.front_mut() {
            Some(Asked { missing, .. }) if missing.len() == 1 && missing[0].begin == psn => {
                missing[0].begin = end;
                if missing[0].end == end {
                    self.requests.pop_front();
                    self.drop_finished();
                }
            }
            _ => self.take_anywhere(psn, end),
        }
    }

    fn take_anywhere(&mut self, psn: Psn, end: Psn) {
        let mut requests = self.requests.iter_mut();
        let found = requests.find_map(|request| {
            let at = request.missing.iter().position(|hole| hole.contains(psn))?;
            Some((&mut request.missing, at))
        });
        let Some((missing, at)) = found else {
            return;
        };
        let hole = missing[at];
        debug_assert!(!hole.end.is_before(end), "data lies in one hole");
        missing[at].begin = end;
        if end == hole.end {
            missing.remove(at);
        }
        if hole.begin != psn {
            let before = Hole {
                end: psn,
                lost: true,
                ..hole
            };
            missing.insert(at, before);
            debug_assert!(
                missing.len() <= HOLES_MAX,
                "data that makes more holes is not taken"
            );
            self.lost = true;
        }
        self.drop_finished();
    }

    fn drop_finished(&mut self) {
        while self.requests.front().is_some_and(|r| r.missing.is_empty()) {
            self.requests.pop_front();
        }
    }

    /// Forgets requests from a PSN on, which will be sent anew.
    pub(crate) fn forget_from(&mut self, psn: Psn) {
        for request in &mut self.requests {
            request.missing.retain(|hole| hole.begin.is_before(psn));
        }
        while self
            .requests
            .back()
            .is_some_and(|last| !last.begin.is_before(psn))
        {
            self.requests.pop_back();
        }
        self.drop_finished();
    }

    /// Marks all holes as lost: nothing has come for too long.
    pub(crate) fn lose_all(&mut self) {
        for request in &mut self.requests {
            request.missing.iter_mut().for_each(|hole| hole.lost = true);
        }
        self.lost = !self.requests.is_empty();
    }

    /// Returns the first hole to ask for again.
    pub(crate) fn first_lost(&mut self) -> Option<Hole> {
        let mut holes = self.requests.iter().flat_map(|request| &request.missing);
        let found = holes.find(|hole| hole.lost).copied();
        self.lost = found.is_some();
        found
    }

    /// Notes that a hole was asked for again, after everything before the PSN `next`.
    pub(crate) fn asked_again(&mut self, begin: Psn, next: Psn) {
        let mut holes = self
            .requests
            .iter_mut()
            .flat_map(|request| &mut request.missing);
        if let Some(hole) = holes.find(|hole| hole.begin == begin) {
            debug_assert!(hole.begin.is_before(next), "it was asked for before");
            hole.lost = false;
            hole.asked = next;
        }
    }
}

#[cfg(test)]
mod tests;
