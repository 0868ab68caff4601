//! Stores to memory that others may read and write meanwhile.

use std::ptr;
use std::sync::atomic::Ordering::Release;
use std::sync::atomic::fence;

/// Number of last bytes of a write that are stored on their own, after all others: programs poll the end of a buffer to
/// see that a message has arrived, and a plain memcpy may store its ends in any order.
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
        // Makes all bytes stored so far, also by earlier pieces, visible before the tail.
        fence(Release);
        move_tail(from.add(head), to.add(head), length - head);
    }
}

/// The same as [`move_tail_last`], with non-temporal stores.
///
/// A plain store to memory that is in no cache first reads the line, to write it back later: each copied byte costs
/// three bytes of memory traffic. Non-temporal stores write whole lines and read none. The copied bytes are then in
/// memory and not in a cache, which is slower for a program that reads them at once: so this is for messages that are
/// longer than caches hold.
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

/// Copies up to [`TAIL`] bytes. A whole tail, the usual case, is one load and one store.
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
    // SAFETY: readable and writable as promised. The bytes belong to a guest that may write them meanwhile, and no lock
    // can stop it. That is tolerated because no reference to them is ever formed and no decision is made twice on what
    // was read: a race tears the guest's own data and nothing else. `copy` and not `copy_nonoverlapping`, since two
    // regions may name one page.
    unsafe { ptr::copy(from, to, length) };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lines {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    /// Bytes of a cache line.
    pub(super) const LINE: usize = 64;

    /// Copies whole lines. Returns when all later stores will be seen after these.
    ///
    /// # Safety
    /// `from` is readable and `to` writable for `length` bytes; `to` is at the start of a line and `length` a multiple
    /// of a line.
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
        const WORD: usize = size_of::<__m128i>();
        for at in (0..length).step_by(LINE) {
            // SAFETY: `at` is inside what was promised, with a whole line after it; `to` is aligned to lines, and so to
            // words. Every x86-64 processor has SSE2.
            unsafe {
                let (from, to) = (from.add(at), to.add(at));
                let word = |number: usize| _mm_loadu_si128(from.add(number * WORD).cast());
                let words = [word(0), word(1), word(2), word(3)];
                for (number, word) in words.into_iter().enumerate() {
                    _mm_stream_si128(to.add(number * WORD).cast(), word);
                }
            }
        }
        // Non-temporal stores are seen in any order, and later plain stores before them.
        // SAFETY: as above, SSE.
        unsafe { _mm_sfence() };
    }
}

/// Copies foreign bytes in any order; later stores are seen later.
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

/// The same on processors whose non-temporal stores are not supported here.
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
