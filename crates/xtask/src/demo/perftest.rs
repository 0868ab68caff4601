//! Reads perftest's output.
//!
//! ```text
//!  #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]   ...
//!  2       1000          13.17          3746.57      32.40              120.82        ...
//!  #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
//!  65536      500            39192.75            6163.37               0.098614
//! ```

use anyhow::{Context, Result};

use super::cells::Measure;
use super::samples::Figure;

/// Column of the typical latency: the median, which a scheduler's tick in a few of a thousand messages does not affect.
const TYPICAL: usize = 4;
const MEAN: usize = 5;
/// Columns of typical, 99 and 99.9 %; the mean and the deviation are between them.
const PERCENTILES: [usize; 3] = [TYPICAL, 7, 8];
const AVERAGE_BANDWIDTH: usize = 3;
/// Column of the message rate, in millions a second.
const MESSAGE_RATE: usize = 4;

const BYTES_PER_MIB: f64 = 1_048_576.0;

/// The figure of one run, in the measure's unit.
///
/// # Errors
/// When the output holds no row of figures.
pub(crate) fn figure(measure: Measure, output: &str) -> Result<Figure> {
    let column = |index| column(output, index);
    Ok(match measure {
        Measure::OneWay | Measure::RoundTrip => Figure {
            value: column(TYPICAL)?,
            mean: Some(column(MEAN)?),
        },
        Measure::Messages => Figure {
            value: column(MESSAGE_RATE)? * 1e3,
            mean: None,
        },
        Measure::Bandwidth => Figure {
            value: column(AVERAGE_BANDWIDTH)? * BYTES_PER_MIB / 1e6,
            mean: None,
        },
    })
}

/// Typical latency, and the latency that 99 and 99.9 % of the messages did not exceed, in microseconds.
///
/// # Errors
/// When the output holds no such row of figures.
pub(crate) fn percentiles(output: &str) -> Result<[f64; 3]> {
    let [typical, p99, p999] = PERCENTILES.map(|index| column(output, index));
    Ok([typical?, p99?, p999?])
}

/// A column of the row of figures.
fn column(output: &str, index: usize) -> Result<f64> {
    let row = output
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("#bytes"))
        .nth(1)
        .context("perftest printed no figures")?;
    let word = row.split_whitespace().nth(index);
    word.and_then(|word| word.parse().ok())
        .with_context(|| format!("perftest printed {row:?} where figures should be"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = "---\n #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n \
        2       1000          13.17          3746.57      32.40    \t       120.82      \t377.55\n---\n";
    const BANDWIDTH: &str = " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n \
        65536      500              39192.75            1000.00\t\t     0.098614\n";

    #[test]
    fn typical_and_mean_latency_are_taken() {
        let figure = figure(Measure::OneWay, LATENCY).unwrap();
        assert_eq!((figure.value, figure.mean), (32.40, Some(120.82)));
    }

    #[test]
    fn bandwidth_is_in_megabytes() {
        let figure = figure(Measure::Bandwidth, BANDWIDTH).unwrap();
        assert_eq!((figure.value, figure.mean), (1048.576, None));
    }

    #[test]
    fn messages_are_in_thousands() {
        let figure = figure(Measure::Messages, BANDWIDTH).unwrap();
        assert!((figure.value - 98.614).abs() < 1e-6);
    }

    #[test]
    fn percentiles_are_the_last_columns() {
        let output = " #bytes #iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%\n 2 9 1.1 9.9 1.5 1.6 0.1 4.5 8.5\n";
        assert_eq!(percentiles(output).unwrap(), [1.5, 4.5, 8.5]);
        assert!(percentiles(LATENCY).is_err());
    }

    #[test]
    fn silence_and_rubbish_are_errors() {
        for output in ["", "#bytes", "#bytes\n", "#bytes\n a b c d e f"] {
            assert!(figure(Measure::OneWay, output).is_err(), "{output:?}");
        }
    }
}
