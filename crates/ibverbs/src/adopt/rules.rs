//! Rules that tell which memory is left alone.

use std::fs;

use vrdma_provider::message::Adoption;

use super::kernel::Range;
use super::tools::Tools;
use super::{STATE, addresses, stacks};

/// The kernel's name for an io_uring, among the descriptors of a process.
const RING: &str = "anon_inode:[io_uring]";

/// Tells why a range must not be adopted, or only in part; `Ok(false)` if all of it is adopted already.
pub(super) fn judge(tools: &Tools, range: Range) -> Result<bool, Adoption> {
    if !tools.is_whole() {
        return Err(Adoption::FileClosed);
    }
    let mut is_new = false;
    let mut at = range.start;
    while at < range.end {
        let place = tools.places.at(at).map_err(|_| Adoption::NotPlain)?;
        let part = place.range.common(range);
        at = part.end;
        if place.is_of(tools.identity()) {
            continue;
        }
        is_new = true;
        if !place.is_plain() {
            return Err(Adoption::NotPlain);
        }
        judge_part(place.range, part)?;
    }
    if is_new && !tools.userfault.is_full() {
        judge_program()?;
    }
    Ok(is_new)
}

fn judge_part(mapping: Range, part: Range) -> Result<(), Adoption> {
    if is_in_use(mapping, part) {
        return Err(Adoption::Stack);
    }
    if addresses::has(part) {
        return Err(Adoption::ReachedByAddress);
    }
    Ok(())
}

/// Whether a part of a mapping may be needed during an exchange, by the thread that exchanges or by another one's first
/// steps: stacks, and this library's state of exchanges.
pub(super) fn is_in_use(mapping: Range, part: Range) -> bool {
    let own = &raw const STATE as usize;
    stacks::any_in(mapping, part) || part.overlaps(Range::of(own, 1))
}

/// Checks that nothing but this thread runs, as must be where accesses of the kernel do not wait.
fn judge_program() -> Result<(), Adoption> {
    if stacks::threads() != Some(1) {
        return Err(Adoption::Threads);
    }
    let descriptors = fs::read_dir("/proc/self/fd").map_err(|_| Adoption::Kernel)?;
    let mut links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    if links.any(|link| link.as_os_str() == RING) {
        return Err(Adoption::Threads);
    }
    Ok(())
}
