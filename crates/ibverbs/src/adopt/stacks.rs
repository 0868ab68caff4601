//! Where the stacks of this process's threads are: they stay private. The kernel keeps data there (`rseq`), and libc
//! has on each a futex for the thread that joins it, whose sleepers would not be found any more.

use std::fs;

use super::PAGE;
use super::kernel::Range;

/// Whether a part of a mapping is a stack, or has the descriptor of a thread, which lies at the top of its stack.
pub(super) fn any_in(mapping: Range, part: Range) -> bool {
    has_main_stack(mapping) || thread_heads().any(|head| head.is_in(mapping, part))
}

/// Whether a mapping has the first stack, on which the kernel puts 16 random bytes.
fn has_main_stack(mapping: Range) -> bool {
    // SAFETY: reads a number.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    contains(mapping, random)
}

fn contains(range: Range, address: usize) -> bool {
    (range.start..range.end).contains(&address)
}

/// A thread, and the address of its list of robust futexes, which libc has in the thread's descriptor.
struct Head {
    tid: i32,
    at: usize,
}

impl Head {
    /// Whether a part of a mapping has this thread's stack or descriptor. The first thread's descriptor is not on its
    /// stack; what lies below it may be anything.
    fn is_in(&self, mapping: Range, part: Range) -> bool {
        let own_page = self.at & !(PAGE - 1);
        let is_first = self.tid as u32 == std::process::id();
        let reaches = part.start < self.at + PAGE && (!is_first || part.end > own_page);
        contains(mapping, self.at) && reaches
    }
}

fn thread_heads() -> impl Iterator<Item = Head> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    let tids = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    tids.filter_map(|tid| {
        let at = robust_list(tid)?;
        Some(Head { tid, at })
    })
}

fn robust_list(tid: i32) -> Option<usize> {
    let (mut head, mut size) = (0usize, 0usize);
    // SAFETY: two places for the answer.
    let failed =
        unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut size) };
    (failed == 0 && head != 0).then_some(head)
}

/// Returns how many threads this process has; `None` if that cannot be seen.
pub(super) fn threads() -> Option<usize> {
    Some(fs::read_dir("/proc/self/task").ok()?.count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adopt::places::Places;

    fn around(address: usize) -> (Range, Range) {
        let mapping = Places::open().unwrap().at(address).unwrap().range;
        (mapping, Range::of(address & !(PAGE - 1), PAGE))
    }

    #[test]
    fn stacks_are_found_and_buffers_are_none() {
        let here = 0u8;
        let (mapping, page) = around(&raw const here as usize);
        assert!(any_in(mapping, page), "this test is a thread of its own");
        // SAFETY: reads a number.
        let main = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
        let (mapping, page) = around(main);
        assert!(any_in(mapping, page));
        let buffer = vec![1u8; 1 << 22];
        let (mapping, page) = around(buffer.as_ptr() as usize + (1 << 20));
        assert!(!any_in(mapping, page));
        assert!(threads().unwrap() >= 2);
    }
}
