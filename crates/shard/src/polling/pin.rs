//! The core that a shard has for itself, if the configuration gives it one.
//!
//! The scheduler only keeps the shard there. Keeping others away is up to whoever starts them: `vrdma run` starts its
//! programs on the other cores. Pinning is for machines with few cores: where two programs that poll share two cores
//! with the shard, the scheduler puts one of them beside it as often as not, and each of their round trips then waits
//! for a wake-up and two switches.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps the calling thread on a core.
pub(crate) fn pin_thread(core: u32) {
    let mut only = CpuSet::new();
    if (core as usize) < CpuSet::MAX_CPU {
        only.set(core as usize);
    }
    if let Err(error) = sched_setaffinity(None, &only) {
        tracing::warn!("the shard stays on all cores, since core {core} cannot be had: {error}");
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_pinned() {
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core));
        let first = first.unwrap();
        let kept = std::thread::spawn(move || {
            pin_thread(first as u32);
            sched_getaffinity(None).unwrap()
        });
        let kept = kept.join().unwrap();
        assert_eq!((kept.count(), kept.is_set(first)), (1, true));
    }

    #[test]
    fn a_core_that_is_not_there_changes_nothing() {
        let unchanged = std::thread::spawn(|| {
            let before = sched_getaffinity(None).unwrap();
            pin_thread(CpuSet::MAX_CPU as u32 - 1);
            pin_thread(u32::MAX);
            before == sched_getaffinity(None).unwrap()
        });
        assert!(unchanged.join().unwrap());
    }
}
