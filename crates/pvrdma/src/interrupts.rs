//! Interrupt causes, their mask, and the vectors to fire.
//!
//! A cause stays readable until the cause register is read, which clears it. A masked cause is kept
//! and fires when it is unmasked.

use crate::abi::register::Vector;

/// Bits of all vectors.
const ALL: u32 = (1 << Vector::COUNT) - 1;

/// The cause and mask registers.
pub(crate) struct Interrupts {
    causes: u32,
    unfired: u32,
    mask: u32,
}

impl Interrupts {
    /// Nothing raised, everything masked.
    pub(crate) const fn new() -> Self {
        Self {
            causes: 0,
            unfired: 0,
            mask: u32::MAX,
        }
    }

    /// The registers of a device that goes on: which vectors were fired is unknown, so all are.
    pub(crate) const fn resume(mask: u32) -> Self {
        Self {
            causes: ALL,
            unfired: ALL,
            mask,
        }
    }

    /// Raises every vector whose bit is set.
    pub(crate) fn raise(&mut self, vectors: u32) {
        self.causes |= vectors & ALL;
        self.unfired |= vectors & ALL;
    }

    /// Takes the vectors to fire now, each once.
    pub(crate) fn take(&mut self) -> u32 {
        let fire = self.unfired & !self.mask;
        self.unfired &= self.mask;
        fire
    }

    /// Reads and clears the causes.
    pub(crate) fn read_causes(&mut self) -> u32 {
        self.unfired = 0;
        core::mem::take(&mut self.causes)
    }

    /// The mask register.
    pub(crate) fn mask(&self) -> u32 {
        self.mask
    }

    /// Sets the mask register.
    pub(crate) fn set_mask(&mut self, mask: u32) {
        self.mask = mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_cause_fires_when_unmasked() {
        let mut interrupts = Interrupts::new();
        interrupts.raise(Vector::Event.bit());
        assert_eq!(interrupts.take(), 0);
        interrupts.set_mask(0);
        assert_eq!(interrupts.take(), Vector::Event.bit());
        assert_eq!(interrupts.take(), 0);
    }

    #[test]
    fn reading_the_causes_clears_them() {
        let mut interrupts = Interrupts::new();
        interrupts.raise(Vector::Response.bit() | Vector::Completion.bit());
        assert_eq!(interrupts.read_causes(), 5);
        assert_eq!(interrupts.read_causes(), 0);
        interrupts.set_mask(0);
        assert_eq!(interrupts.take(), 0);
    }
}
