//! Private data: bytes that the CM carries for its users.

use core::fmt;

/// Private data of a message that has `N` bytes for it. Shorter data is filled up with zeros, as on the wire, where no
/// field says how much of it is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PrivateData<const N: usize>([u8; N]);

impl<const N: usize> PrivateData<N> {
    /// No data.
    pub const EMPTY: Self = Self([0; N]);

    /// Copies the data; `None` if it is longer than `N`.
    pub fn new(data: &[u8]) -> Option<Self> {
        let mut bytes = [0; N];
        bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(Self(bytes))
    }

    /// Returns all `N` bytes.
    pub const fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }

    pub(super) const fn from_array(bytes: [u8; N]) -> Self {
        Self(bytes)
    }
}

impl<const N: usize> fmt::Debug for PrivateData<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().rposition(|&byte| byte != 0);
        f.debug_list()
            .entries(&self.0[..end.map_or(0, |last| last + 1)])
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn data_is_filled_up_and_bounded() {
        let data = PrivateData::<4>::new(&[1, 2]).unwrap();
        assert_eq!(data.as_bytes(), &[1, 2, 0, 0]);
        assert_eq!(format!("{data:?}"), "[1, 2]");
        assert_eq!(PrivateData::<4>::new(&[0; 5]), None);
    }
}
