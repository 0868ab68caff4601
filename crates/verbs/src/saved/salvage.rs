//! The rest of an adapter with damaged pieces: a damaged object ends, with those that need it, but nothing else does.
//!
//! Pieces are tried together. A part that does not fit the accepted pieces is halved until the pieces that do not fit
//! are found.

use alloc::vec::Vec;

use super::{Pieces, RestoreError};
use crate::hca::Hca;

/// Most pieces that are put together in all attempts, about a microsecond each: enough to find a damaged one among ten
/// thousand. Others on the same thread wait meanwhile.
const PIECES_TRIED: usize = 1 << 19;

impl<R: Clone> Hca<R> {
    /// Does the same as [`assemble`](Self::assemble), but leaves out objects that do not fit the others.
    ///
    /// # Errors
    /// The frame cannot be used.
    pub fn salvage(
        pieces: Pieces,
        mut region: impl FnMut(&[u8]) -> Option<R>,
    ) -> Result<Self, RestoreError> {
        let sound = sound(pieces, &mut |tried| {
            Self::assemble(tried, &mut region).is_ok()
        });
        Self::assemble(sound, &mut region)
    }
}

/// Returns the pieces that fit together, in an order in which none needs a later one.
fn sound(all: Pieces, fits: &mut impl FnMut(Pieces) -> bool) -> Pieces {
    let mut search = Search {
        sound: Pieces {
            frame: all.frame,
            seed: all.seed,
            ..Pieces::default()
        },
        left: PIECES_TRIED,
        fits,
    };
    search.add(&all.pds, |pieces| &mut pieces.pds);
    search.add(&all.mrs, |pieces| &mut pieces.mrs);
    search.add(&all.cqs, |pieces| &mut pieces.cqs);
    search.add(&all.srqs, |pieces| &mut pieces.srqs);
    search.add(&all.qps, |pieces| &mut pieces.qps);
    search.sound
}

struct Search<'f, F> {
    sound: Pieces,
    /// Number of pieces that may still be tried.
    left: usize,
    fits: &'f mut F,
}

impl<F: FnMut(Pieces) -> bool> Search<'_, F> {
    /// Takes the pieces that fit the accepted ones. Pieces that were not tried in the end are left out.
    fn add<T: Clone>(&mut self, some: &[T], list: fn(&mut Pieces) -> &mut Vec<T>) {
        let cost = count(&self.sound) + some.len();
        if some.is_empty() || cost > self.left {
            return;
        }
        self.left -= cost;
        let before = list(&mut self.sound).len();
        list(&mut self.sound).extend_from_slice(some);
        if (self.fits)(self.sound.clone()) {
            return;
        }
        list(&mut self.sound).truncate(before);
        if some.len() > 1 {
            let (front, back) = some.split_at(some.len() / 2);
            self.add(front, list);
            self.add(back, list);
        }
    }
}

fn count(pieces: &Pieces) -> usize {
    let records = [&pieces.pds, &pieces.mrs, &pieces.cqs, &pieces.srqs];
    pieces.qps.len() + records.map(Vec::len).iter().sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(qps: &[u8]) -> Pieces {
        let qp = |number: &u8| super::super::QpPiece {
            record: alloc::vec![*number],
            progress: Vec::new(),
            receive: None,
        };
        Pieces {
            qps: qps.iter().map(qp).collect(),
            ..Pieces::default()
        }
    }

    fn numbers(pieces: &Pieces) -> Vec<u8> {
        pieces.qps.iter().map(|qp| qp.record[0]).collect()
    }

    #[test]
    fn pieces_that_do_not_fit_are_left_out() {
        let all: Vec<u8> = (0..=255).collect();
        let is_bad = |number: &u8| [0, 17, 18, 255].contains(number);
        let sound = sound(pieces(&all), &mut |tried| {
            !numbers(&tried).iter().any(is_bad)
        });
        let good: Vec<u8> = all.into_iter().filter(|it| !is_bad(it)).collect();
        assert_eq!(numbers(&sound), good);
    }

    #[test]
    fn of_two_with_one_number_the_first_stays() {
        let sound = sound(pieces(&[1, 2, 2, 3]), &mut |tried| {
            numbers(&tried).is_sorted_by(|a, b| a < b)
        });
        assert_eq!(numbers(&sound), [1, 2, 3]);
    }

    #[test]
    fn the_search_ends() {
        let mut tried = 0;
        sound(pieces(&[1, 2].repeat(1 << 15)), &mut |some| {
            tried += count(&some);
            !numbers(&some).contains(&1)
        });
        assert!(tried <= PIECES_TRIED, "{tried}");
    }
}
