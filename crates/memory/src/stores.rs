//! Stores to memory that others may read and write meanwhile.

use std::ptr;
use std::sync::atomic::Ordering::Release;
use std::sync::atomic::fence;

/// The last bytes of a write are stored on their own, after all others: programs poll the end of a
/// buffer to see that a message has arrived, and a plain memcpy may store its ends in any order.
pub(crate) const TAIL: u64 = 8;

/// Copies foreign bytes, the tail after the rest: see [`TAIL`].
///
/// # Safety
/// `from` is readable and `to` writable for `length` bytes.
#[inline]
pub(crate) unsafe fn move_tail_last(from: *const u8, to: *mut u8, length: usize) {
    let head = length.saturating_sub(TAIL as usize);
    // SAFETY: both parts are inside what was promised.
    unsafe {
        move_bytes(from, to, head);
        // What was stored so far, also by earlier pieces, becomes visible before what comes now.
        fence(Release);
        move_tail(from.add(head), to.add(head), length - head);
    }
}

/// The same with non-temporal stores.
///
/// A plain store to memory that no cache has reads the line first, to write it back later: a copied byte costs the memory
/// three. Non-temporal stores write whole lines and read none. What was copied is in memory then and not in a cache, which
/// is slower for whoever reads it at once and would have found it there: for messages that are longer than what caches
/// hold.
///
/// # Safety
/// As for [`move_tail_last`].
pub(crate) unsafe fn move_non_temporal_tail_last(from: *const u8, to: *mut u8, length: usize) {
    let head = length.saturating_sub(TAIL as usize);
    // SAFETY: both parts are inside what was promised.
    unsafe {
        move_non_temporal(from, to, head);
        fence(Release);
        move_tail(from.add(head), to.add(head), length - head);
    }
}

/// Copies up to [`TAIL`] bytes. A whole tail, which is usual, is one load and one store.
///
/// # Safety
/// As for [`move_tail_last`].
#[inline]
unsafe fn move_tail(from: *const u8, to: *mut u8, length: usize) {
    const WHOLE: usize = TAIL as usize;
    if length == WHOLE {
        // SAFETY: as promised.
        unsafe { ptr::copy(from.cast::<[u8; WHOLE]>(), to.cast(), 1) }
    } else {
        // SAFETY: as promised.
        unsafe { move_bytes(from, to, length) }
    }
}

/// Copies foreign bytes in any order.
///
/// # Safety
/// As for [`move_tail_last`].
#[inline]
pub(crate) unsafe fn move_bytes(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: readable and writable as promised. The bytes belong to a guest that may write them
    // meanwhile, and no lock can stop it. That is tolerated because no reference to them is ever
    // formed and nothing is decided twice on what was read: a race tears the guest's own data and
    // nothing else. `copy` and not `copy_nonoverlapping`, since two regions may name one page.
    unsafe { ptr::copy(from, to, length) };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lines {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    /// A cache line.
    pub(super) const LINE: usize = 64;

    /// Copies whole lines, and returns when all that come later see them.
    ///
    /// # Safety
    /// `from` is readable and `to` writable for `length` bytes; `to` is at a line's begin and `length` a number of lines.
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
        const WORD: usize = size_of::<__m128i>();
        for at in (0..length).step_by(LINE) {
            // SAFETY: `at` is inside what was promised, with a line behind it; `to` is aligned to lines, and so to words.
            // Every x86-64 processor has SSE2.
            unsafe {
                let (from, to) = (from.add(at), to.add(at));
                let word = |number: usize| _mm_loadu_si128(from.add(number * WORD).cast());
                let words = [word(0), word(1), word(2), word(3)];
                for (number, word) in words.into_iter().enumerate() {
                    _mm_stream_si128(to.add(number * WORD).cast(), word);
                }
            }
        }
        // Such stores are seen in any order, and later plain ones before them.
        // SAFETY: as above, SSE.
        unsafe { _mm_sfence() };
    }
}

/// Copies foreign bytes in any order; whatever is stored later is seen later.
///
/// # Safety
/// As for [`move_tail_last`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn move_non_temporal(from: *const u8, to: *mut u8, length: usize) {
    let head = to.align_offset(lines::LINE).min(length);
    let body = (length - head) / lines::LINE * lines::LINE;
    // SAFETY: the three parts are what was promised.
    unsafe {
        move_bytes(from, to, head);
        lines::copy(from.add(head), to.add(head), body);
        let tail = head + body;
        move_bytes(from.add(tail), to.add(tail), length - tail);
    }
}

/// The same on processors whose such stores this does not know.
///
/// # Safety
/// As for [`move_tail_last`].
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn move_non_temporal(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: as promised.
    unsafe { move_bytes(from, to, length) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_begin_and_length_is_copied_and_nothing_else() {
        let source: Vec<u8> = (0..700u32).map(|at| (at * 7 % 251) as u8 + 1).collect();
        for begin in 0..65 {
            for length in (0..70).chain([127, 128, 129, 500, 635]) {
                let mut target = vec![0; 700];
                // SAFETY: 700 bytes on either side, of two buffers.
                unsafe {
                    move_non_temporal(source.as_ptr(), target.as_mut_ptr().add(begin), length)
                };
                let end = begin + length;
                assert_eq!(target[begin..end], source[..length], "{begin}, {length}");
                let others = target[..begin].iter().chain(&target[end..]);
                assert!(others.copied().all(|byte| byte == 0), "{begin}, {length}");
            }
        }
    }
}
