//! The program's memory for a datagram, which may be in pieces.

use crate::errno::{Errno, Result};

/// `IOV_MAX`.
const PIECES_MAX: usize = 1024;

/// Pieces of memory, one after the other.
#[derive(Clone, Copy)]
pub(in crate::cm::sockets) struct Pieces<'a>(&'a [libc::iovec]);

impl<'a> Pieces<'a> {
    /// # Safety
    /// Each piece is memory of its length for as long as this is used.
    pub(in crate::cm::sockets) unsafe fn new(pieces: &'a [libc::iovec]) -> Self {
        Self(pieces)
    }

    /// Takes the pieces of a call.
    ///
    /// # Safety
    /// `pieces` points to that many, for which [`Pieces::new`]'s conditions hold.
    pub(in crate::cm::sockets) unsafe fn of_call(
        pieces: *const libc::iovec,
        count: usize,
    ) -> Result<Self> {
        match count {
            0 => Ok(Self(&[])),
            1..=PIECES_MAX if !pieces.is_null() => {
                // SAFETY: as promised.
                Ok(unsafe { Self::new(std::slice::from_raw_parts(pieces, count)) })
            }
            _ => Err(Errno(libc::EMSGSIZE)),
        }
    }

    pub(in crate::cm::sockets) fn length(&self) -> usize {
        let lengths = self.0.iter().map(|piece| piece.iov_len);
        lengths.fold(0, usize::saturating_add)
    }

    /// Calls `act` for each piece, up to `most` bytes in all, with the bytes before it, its address and its length.
    /// Returns the number of bytes.
    pub(super) fn each(&self, most: usize, mut act: impl FnMut(usize, *mut u8, usize)) -> usize {
        let mut done = 0;
        for piece in self.0 {
            let count = piece.iov_len.min(most - done);
            if count > 0 {
                act(done, piece.iov_base.cast(), count);
                done += count;
            }
        }
        done
    }

    /// Returns a copy of the pieces, of `most` bytes at most.
    pub(super) fn copied(&self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.length().min(most)];
        let room = bytes.as_mut_ptr();
        self.each(most, |done, from, count| {
            // SAFETY: the room is as long as all of them, and `from` is memory of the program.
            unsafe { libc::memcpy(room.add(done).cast(), from.cast(), count) };
        });
        bytes
    }
}

/// Returns bytes of ours as a piece.
pub(super) fn piece(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_after_the_other_and_end_at_the_bound() {
        let whole = [piece(b"ab"), piece(b""), piece(b"cde")];
        // SAFETY: constants.
        let pieces = unsafe { Pieces::new(&whole) };
        assert_eq!(pieces.length(), 5);
        assert_eq!(pieces.copied(9), b"abcde");
        assert_eq!(pieces.copied(3), b"abc");
    }

    #[test]
    fn too_many_pieces_are_refused() {
        let one = piece(b"a");
        // SAFETY: none of more than one is looked at.
        let taken = unsafe {
            [
                Pieces::of_call(&raw const one, PIECES_MAX + 1).is_ok(),
                Pieces::of_call(core::ptr::null(), 1).is_ok(),
                Pieces::of_call(core::ptr::null(), 0).is_ok(),
            ]
        };
        assert_eq!(taken, [false, false, true]);
    }
}
