//! The core that the shard has for itself, if the configuration gives it one.
//!
//! The scheduler only keeps the shard there. That others stay away is up to who starts them: `vrdma run`
//! starts its programs on the other cores. It is for machines with few: where two programs that poll share
//! two cores with the shard, the scheduler puts one of them beside it as often as not, and each of their
//! round trips then waits for a wake-up and two switches.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A core on which the daemon may run. The error is a sentence.
pub(crate) fn usable(number: i64) -> Result<u32, String> {
    let allowed = sched_getaffinity(None).map_err(|error| {
        format!("the cores of the daemon are not known ({error}); leave it out")
    })?;
    let cores = (0..CpuSet::MAX_CPU as u32).filter(|core| allowed.is_set(*core as usize));
    let found = cores.clone().find(|core| i64::from(*core) == number);
    found.ok_or_else(|| {
        let cores = ranges(cores);
        format!("the daemon may not use core {number}; choose one of {cores}")
    })
}

/// Keeps the calling thread there.
pub(crate) fn pin_thread(core: u32) {
    let mut only = CpuSet::new();
    if (core as usize) < CpuSet::MAX_CPU {
        only.set(core as usize);
    }
    if let Err(error) = sched_setaffinity(None, &only) {
        tracing::warn!("the shard stays on all cores, since core {core} cannot be had: {error}");
    }
}

/// As `lscpu` writes them: `0-3,6`.
fn ranges(cores: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for core in cores {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => runs.push((core, core)),
        }
    }
    let written = runs.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    written.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_written_together() {
        for (cores, written) in [
            (vec![], ""),
            (vec![2], "2"),
            (vec![0, 1, 2, 3, 6, 8, 9], "0-3,6,8-9"),
        ] {
            assert_eq!(ranges(cores.into_iter()), written);
        }
    }

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
        for core in [-1, i64::from(u32::MAX), i64::MAX] {
            let sentence = usable(core).unwrap_err();
            assert!(sentence.starts_with(&format!(
                "the daemon may not use core {core}; choose one of "
            )));
        }
    }
}
