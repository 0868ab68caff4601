//! The verdicts of a guest with Linux's software RoCE on the packets that reach it.
//!
//! rxe silently drops a packet with a wrong ICRC, and none of its counters shows that (Linux 6.12,
//! drivers/infiniband/sw/rxe/rxe_recv.c). So a return probe on its check counts the verdicts: 0 for a right ICRC, a
//! negative number for a wrong one.

use anyhow::{Context, Result, ensure};
use vrdma_lab::guest::{Guest, Kind};

const WATCH: &str = "t=/sys/kernel/tracing; [ -e $t/kprobe_events ] || mount -t tracefs t $t; cd $t && \
     echo 'r:icrc rxe_icrc_check verdict=$retval:s32' > kprobe_events && \
     echo 'hist:keys=verdict' > events/kprobes/icrc/trigger && echo 1 > events/kprobes/icrc/enable";

/// Prints lines such as `{ verdict:          0 } hitcount:       5000`.
const LOOK: &str = "cat /sys/kernel/tracing/events/kprobes/icrc/hist";

/// Packets by rxe's verdict on their ICRC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Verdicts {
    right: u64,
    wrong: u64,
}

/// Starts counting in every guest that has rxe.
pub(crate) fn watch<'a>(guests: impl IntoIterator<Item = &'a Guest>) -> Result<()> {
    for guest in with_rxe(guests) {
        guest
            .check(WATCH)
            .with_context(|| format!("cannot watch rxe in guest {}", guest.name()))?;
    }
    Ok(())
}

/// Fails if packets have been refused so far.
pub(crate) fn check<'a>(guests: impl IntoIterator<Item = &'a Guest>) -> Result<()> {
    let wrong = verdicts(guests)?.wrong;
    ensure!(wrong == 0, "rxe found {wrong} packets with a wrong ICRC");
    Ok(())
}

/// The summary of verdicts at the end of a run; `None` if no rxe took part.
pub(crate) fn told<'a>(guests: impl IntoIterator<Item = &'a Guest>) -> Option<String> {
    match verdicts(guests) {
        Ok(Verdicts { right: 0, wrong: 0 }) => None,
        Ok(Verdicts { right, wrong }) => {
            let all = right + wrong;
            Some(format!(
                "rxe checked the ICRC of {all} packets: {wrong} were wrong"
            ))
        }
        Err(error) => Some(format!("rxe's verdicts are unknown: {error:#}")),
    }
}

/// The sum of all guests' counts.
fn verdicts<'a>(guests: impl IntoIterator<Item = &'a Guest>) -> Result<Verdicts> {
    let mut sum = Verdicts::default();
    for guest in with_rxe(guests) {
        let seen = read(&guest.check(LOOK)?)?;
        sum.right += seen.right;
        sum.wrong += seen.wrong;
    }
    Ok(sum)
}

fn with_rxe<'a>(guests: impl IntoIterator<Item = &'a Guest>) -> impl Iterator<Item = &'a Guest> {
    let guests = guests.into_iter();
    guests.filter(|guest| guest.config().kind == Kind::Rxe)
}

fn read(histogram: &str) -> Result<Verdicts> {
    let mut seen = Verdicts::default();
    for line in histogram.lines().filter(|line| line.starts_with('{')) {
        let numbers: Vec<i64> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let &[verdict, count] = numbers.as_slice() else {
            anyhow::bail!("not a line of a histogram: {line}");
        };
        let count = u64::try_from(count)?;
        match verdict {
            0 => seen.right += count,
            _ => seen.wrong += count,
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_counted_by_their_sign() {
        let histogram = "\
# event histogram
{ verdict:          0 } hitcount:       5000
{ verdict:        -22 } hitcount:          3

Totals:
    Hits: 5003
";
        let seen = Verdicts {
            right: 5000,
            wrong: 3,
        };
        assert_eq!(read(histogram).unwrap(), seen);
        assert_eq!(read("# nothing yet\n").unwrap(), Verdicts::default());
        assert!(read("{ verdict: x }").is_err());
    }
}
