//! Functions that the host can lend to two guests.

use anyhow::Result;

use super::card::Card;
use super::loan::{Loan, Virtual};
use super::tree::{PciAddress, Tree};

/// Number of guests, which need a function each.
const GUESTS: usize = 2;

/// The hardware that would be lent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    /// Two cards.
    Whole([PciAddress; GUESTS]),
    /// Virtual functions of a card.
    Functions(PciAddress),
}

/// Lent functions; the loans end before the virtual functions do.
#[derive(Debug)]
pub struct Lease {
    loans: [Loan; GUESTS],
    _functions: Option<Virtual>,
}

impl Offer {
    /// Offers two whole cards.
    pub(super) fn whole(tree: &Tree, cards: &[Card]) -> Result<Self, String> {
        let (free, kept): (Vec<_>, Vec<_>) = cards
            .iter()
            .map(|card| (card, card.keeps_whole(tree)))
            .partition(|(_, reason)| reason.is_none());
        match free.as_slice() {
            [(a, _), (b, _), ..] => Ok(Self::Whole([a.address.clone(), b.address.clone()])),
            _ => {
                let reasons = kept.into_iter().filter_map(|(_, reason)| reason);
                let alone = free.iter().map(|(card, _)| {
                    format!(
                        "{} is free, but each of two guests needs a card",
                        card.address
                    )
                });
                Err(alone.chain(reasons).collect::<Vec<_>>().join("; "))
            }
        }
    }

    /// Offers virtual functions of one card.
    pub(super) fn functions(tree: &Tree, cards: &[Card]) -> Result<Self, String> {
        let mut reasons = Vec::new();
        for card in cards {
            match card.keeps_functions(tree, GUESTS) {
                None => return Ok(Self::Functions(card.address.clone())),
                Some(reason) => reasons.push(reason),
            }
        }
        Err(reasons.join("; "))
    }

    /// Takes the functions from the host.
    ///
    /// # Errors
    /// When the kernel refuses; the host then has all of it back.
    pub(super) fn take(&self, tree: &Tree) -> Result<Lease> {
        let (functions, addresses) = match self {
            Self::Whole(addresses) => (None, addresses.to_vec()),
            Self::Functions(card) => {
                let functions = Virtual::create(tree, card, GUESTS)?;
                let addresses = functions.addresses();
                (Some(functions), addresses)
            }
        };
        Ok(Lease {
            loans: [
                Loan::take(tree, &addresses[0])?,
                Loan::take(tree, &addresses[1])?,
            ],
            _functions: functions,
        })
    }
}

impl Lease {
    /// The address of each guest's function.
    #[must_use]
    pub fn addresses(&self) -> [&PciAddress; GUESTS] {
        self.loans.each_ref().map(Loan::address)
    }
}
