//! qperf and its output: `-uu` makes it print ns and bytes/sec.

use anyhow::{Context, Result, bail};

use super::{Commands, Figure};
use crate::cell::Unit;
use crate::plan::Scale;

/// A test of qperf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qperf {
    /// Its name, such as `tcp_lat`.
    pub test: &'static str,
    /// Options before the test; `-cm1` makes RoCE queue pairs by `rdma_cm`, without which qperf does not fill the GRH.
    pub options: &'static str,
    /// Name of the only figure's size.
    pub point: &'static str,
}

impl Qperf {
    pub(super) fn commands(&self, scale: Scale) -> Commands {
        let seconds = match scale {
            Scale::Full => 3,
            Scale::Short => 1,
        };
        let options = match self.options {
            "" => String::new(),
            options => format!(" {options}"),
        };
        Commands {
            server: "qperf".to_owned(),
            client: format!("qperf $A -uu -t {seconds}{options} {}", self.test),
        }
    }

    pub(super) fn figures(&self, unit: Unit, output: &str) -> Result<Vec<Figure>> {
        Ok(vec![Figure {
            size: self.point.to_owned(),
            value: value(unit, output)?,
            mean: None,
        }])
    }
}

/// The figure. qperf's latency is half of the time that it measures, except for reads.
fn value(unit: Unit, output: &str) -> Result<f64> {
    let (_, figure) = output.split_once('=').context("qperf printed no figure")?;
    let mut words = figure.split_whitespace();
    let value: f64 = words
        .next()
        .context("qperf printed no figure")?
        .parse()
        .context("qperf printed no number")?;
    Ok(match (words.next(), unit) {
        (Some("ns"), Unit::Microseconds) => value / 1e3,
        (Some("bytes/sec"), Unit::Megabytes) => value / 1e6,
        (Some("bytes/sec"), Unit::Gigabytes) => value / 1e9,
        (told, _) => bail!(
            "qperf printed a figure in {told:?} where {} was wanted",
            unit.text()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        let value = |unit, output| super::value(unit, output).unwrap();
        assert_eq!(
            value(Unit::Microseconds, "tcp_lat:\n    latency  =  191397 ns\n"),
            191.397
        );
        assert_eq!(
            value(
                Unit::Gigabytes,
                "tcp_bw:\n    bw  =  3244986400 bytes/sec\n"
            ),
            3.2449864
        );
    }

    #[test]
    fn silence_and_other_units_are_errors() {
        for output in [
            "",
            "tcp_lat:",
            "a = ",
            "a = 3",
            "a = 3 us",
            "a = x ns",
            "a = 3 bytes/sec",
        ] {
            assert!(value(Unit::Microseconds, output).is_err(), "{output:?}");
        }
    }
}
