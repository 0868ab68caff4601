//! The cores that the program runs on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Removes the core from this thread, and thus from the program, unless it is the only one. If that fails, the program
/// still runs, only slower.
pub(super) fn keep_off(core: u32) {
    let Ok(mut cores) = sched_getaffinity(None) else {
        return;
    };
    if (core as usize) < CpuSet::MAX_CPU {
        cores.unset(core as usize);
    }
    if cores.count() > 0 {
        let _ = sched_setaffinity(None, &cores);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores() -> CpuSet {
        sched_getaffinity(None).unwrap()
    }

    #[test]
    fn the_core_is_left_unless_it_is_the_only_one() {
        let kept = std::thread::spawn(|| {
            let before = cores();
            let there = |core: &usize| before.is_set(*core);
            let all: Vec<_> = (0..CpuSet::MAX_CPU).filter(there).collect();
            all.iter().for_each(|core| keep_off(*core as u32));
            let last = cores();
            keep_off(u32::MAX);
            (
                last == cores(),
                last.count(),
                last.is_set(*all.last().unwrap()),
            )
        });
        assert_eq!(kept.join().unwrap(), (true, 1, true));
    }
}
