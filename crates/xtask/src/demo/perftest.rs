//! Reads what perftest prints.
//!
//! ```text
//!  #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]   ...
//!  2       1000          13.17          3746.57      32.40              120.82        ...
//!  #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
//!  65536      500            39192.75            6163.37               0.098614
//! ```

use anyhow::{Context, Result};

use super::cells::Measure;

/// Typical latency is the median, which a scheduler's tick in a few of a thousand does not move.
const TYPICAL: usize = 4;
const AVERAGE_BANDWIDTH: usize = 3;

const BYTES_PER_MIB: f64 = 1_048_576.0;

/// The figure of one run in the measure's unit.
///
/// # Errors
/// When the output holds no row of figures.
pub(super) fn figure(measure: Measure, output: &str) -> Result<f64> {
    let row = output
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("#bytes"))
        .nth(1)
        .context("perftest printed no figures")?;
    let column = if measure.is_latency() {
        TYPICAL
    } else {
        AVERAGE_BANDWIDTH
    };
    let value: f64 = row
        .split_whitespace()
        .nth(column)
        .and_then(|word| word.parse().ok())
        .with_context(|| format!("perftest printed {row:?} where figures should be"))?;
    Ok(match measure {
        Measure::OneWay | Measure::RoundTrip => value,
        Measure::Bandwidth => value * BYTES_PER_MIB / 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = "---\n #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n \
        2       1000          13.17          3746.57      32.40    \t       120.82      \t377.55\n---\n";
    const BANDWIDTH: &str = " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n \
        65536      500              39192.75            1000.00\t\t     0.098614\n";

    #[test]
    fn the_typical_latency_is_taken() {
        assert_eq!(figure(Measure::OneWay, LATENCY).unwrap(), 32.40);
    }

    #[test]
    fn bandwidth_is_in_megabytes() {
        assert_eq!(figure(Measure::Bandwidth, BANDWIDTH).unwrap(), 1048.576);
    }

    #[test]
    fn silence_and_rubbish_are_errors() {
        for output in ["", "#bytes", "#bytes\n", "#bytes\n a b c d e f"] {
            assert!(figure(Measure::OneWay, output).is_err(), "{output:?}");
        }
    }
}
