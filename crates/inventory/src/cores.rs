//! Lists of processor cores, such as `2-5,7`.

use rustix::thread::{CpuSet, sched_getaffinity};

/// Parses a list such as `2-5,7`, all of whose cores the daemon must be allowed to use. The error is a sentence.
pub(crate) fn parse(list: &str) -> Result<Vec<u32>, String> {
    let wrong = || {
        format!(
            "{list:?} is no list of cores; write numbers and ranges, such as \"1\" or \"2-5,7\""
        )
    };
    let allowed = sched_getaffinity(None).map_err(|error| {
        format!("the cores of the daemon are not known ({error}); leave `cores` out")
    })?;
    let mut cores = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(wrong());
        }
        for core in first..=last {
            if core as usize >= CpuSet::MAX_CPU || !allowed.is_set(core as usize) {
                let usable =
                    (0..CpuSet::MAX_CPU as u32).filter(|core| allowed.is_set(*core as usize));
                return Err(format!(
                    "the daemon may not use core {core}; choose of {}",
                    ranges(usable)
                ));
            }
            if cores.contains(&core) {
                return Err(format!("core {core} is named twice; name it once"));
            }
            cores.push(core);
        }
    }
    Ok(cores)
}

/// Writes cores as `lscpu` does: `0-3,6`.
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
    fn a_list_names_cores_that_may_be_used() {
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core));
        let first = first.unwrap();
        assert_eq!(parse(&first.to_string()), Ok(vec![first as u32]));
        assert_eq!(parse(&format!(" {first}-{first} ")), Ok(vec![first as u32]));
        for (list, said) in [
            ("", "is no list of cores"),
            ("-1", "is no list of cores"),
            ("two", "is no list of cores"),
            ("3-2", "is no list of cores"),
            (
                "4294967295",
                "the daemon may not use core 4294967295; choose of ",
            ),
            (&format!("{first},{first}"), "is named twice; name it once"),
        ] {
            let sentence = parse(list).unwrap_err();
            assert!(sentence.contains(said), "{list}: {sentence}");
        }
    }
}
