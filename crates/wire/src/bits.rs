//! Numbers of fewer than eight bits.

use core::fmt;

/// A number of `N` bits, 1 to 8: a field that shares its byte with others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bits<const N: u32>(u8);

impl<const N: u32> Bits<N> {
    /// The largest value.
    pub const MAX: Self = Self(0xff >> (8 - N));

    /// Makes a number; `None` if it does not fit.
    pub const fn new(value: u8) -> Option<Self> {
        if value <= Self::MAX.0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// Takes the low bits.
    pub const fn low(value: u8) -> Self {
        Self(value & Self::MAX.0)
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl<const N: u32> fmt::Debug for Bits<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_keeps_its_width() {
        assert_eq!(Bits::<5>::new(31), Some(Bits::MAX));
        assert_eq!(Bits::<5>::new(32), None);
        assert_eq!(Bits::<3>::low(0xfd).get(), 5);
        assert_eq!(Bits::<8>::MAX.get(), 255);
    }
}
