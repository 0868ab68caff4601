//! TCP over the guests' network card, as qperf measures it: `-uu` makes it print ns and bytes/sec.

use anyhow::{Context, Result, bail};

use super::cells::Measure;
use super::samples::Figure;

pub(crate) const SERVER: &str = "qperf";

/// The client's command. qperf's latency is one way: half of the time that it measures.
pub(crate) fn client(measure: Measure) -> &'static str {
    if measure.is_latency() {
        "qperf $A -uu -t 1 tcp_lat"
    } else {
        "qperf $A -uu -t 1 tcp_bw"
    }
}

/// The figure of one run, as microseconds one way (a mean; qperf prints no median) or megabytes a second.
///
/// # Errors
/// When the output has no figure in a known unit.
pub(crate) fn figure(output: &str) -> Result<Figure> {
    let (_, figure) = output.split_once('=').context("qperf printed no figure")?;
    let mut words = figure.split_whitespace();
    let value: f64 = words.next().context("qperf printed no figure")?.parse()?;
    match words.next() {
        Some("ns") => Ok(Figure {
            value: value / 1e3,
            mean: None,
        }),
        Some("bytes/sec") => Ok(Figure {
            value: value / 1e6,
            mean: None,
        }),
        unit => bail!("qperf printed a figure in {unit:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_units_are_read() {
        assert_eq!(
            figure("tcp_lat:\n    latency  =  191397 ns\n")
                .unwrap()
                .value,
            191.397
        );
        assert_eq!(
            figure("tcp_bw:\n    bw  =  32449864 bytes/sec\n")
                .unwrap()
                .value,
            32.449864
        );
    }

    #[test]
    fn silence_and_other_units_are_errors() {
        for output in ["", "tcp_lat:", "a = ", "a = 3", "a = 3 us", "a = x ns"] {
            assert!(figure(output).is_err(), "{output:?}");
        }
    }
}
