//! perftest's programs and their output.
//!
//! ```text
//!  #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]   ...
//!  2       1000          13.17          3746.57      32.40              120.82        ...
//!  #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
//!  65536      500            39192.75            6163.37               0.098614
//! ```

use anyhow::{Context, Result, ensure};

use super::{Commands, Figure};
use crate::plan::Scale;

/// Column of the typical latency: the median, which a scheduler's tick in a few of a thousand messages does not affect.
const TYPICAL: usize = 4;
const MEAN: usize = 5;
const AVERAGE_BANDWIDTH: usize = 3;
/// Column of the message rate, in millions a second.
const MESSAGE_RATE: usize = 4;

const BYTES_PER_MIB: f64 = 1_048_576.0;

/// Part of a short run's messages, as a divisor, that warms up.
const WARM_UP_PART: u32 = 10;

const ALL_SIZES: &str = "-a";

/// Fewest iterations that perftest accepts.
const ITERATIONS_MIN: u32 = 5;

/// The column of the figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Typical latency and mean, in us.
    Latency,
    /// Average bandwidth, in MB/s.
    Bandwidth,
    /// Messages, in millions a second.
    Messages,
}

/// One program with its options, the same for both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Perftest {
    /// Its name, such as `ib_send_lat`.
    pub program: &'static str,
    /// Its options, without iterations, device and address.
    pub options: &'static str,
    /// Messages of a size: in a full run and in a short one.
    pub iterations: [u32; 2],
    /// The column to read.
    pub column: Column,
    /// Name of the only size, if not its bytes.
    pub point: Option<&'static str>,
}

impl Perftest {
    pub(super) fn commands(&self, scale: Scale) -> Commands {
        let iterations = self.iterations[usize::from(scale == Scale::Short)];
        self.messages(self.options, iterations)
    }

    /// Warms up with one size: perftest spends half a second on each, most of it on the processor's clock.
    pub(super) fn warm_up(&self) -> Commands {
        let iterations = (self.iterations[1] / WARM_UP_PART).max(ITERATIONS_MIN);
        let others = self.options.strip_prefix(ALL_SIZES);
        self.messages(others.unwrap_or(self.options).trim(), iterations)
    }

    /// Seconds of a turn, about: runs of all sizes take long, a single one does not.
    pub(super) fn seconds(&self) -> u64 {
        match (self.options.contains(ALL_SIZES), self.column) {
            (true, Column::Latency) => 14,
            (true, Column::Bandwidth | Column::Messages) => 8,
            (false, _) => 2,
        }
    }

    /// The commands. GID index 1 is the IPv4 address; `-F` accepts that the processor's clock is not what perftest
    /// expects.
    fn messages(&self, options: &str, iterations: u32) -> Commands {
        let options = match options {
            "" => String::new(),
            options => format!(" {options}"),
        };
        let server = format!("{} -x 1 -F{options} -n {iterations}", self.program);
        let client = format!("{server} $A");
        Commands { server, client }
    }

    pub(super) fn figures(&self, output: &str) -> Result<Vec<Figure>> {
        let rows = output
            .lines()
            .skip_while(|line| !line.trim_start().starts_with("#bytes"))
            .skip(1)
            .take_while(|line| {
                line.trim_start()
                    .starts_with(|first: char| first.is_ascii_digit())
            });
        let figures = rows
            .map(|row| self.figure(row))
            .collect::<Result<Vec<_>>>()?;
        ensure!(!figures.is_empty(), "{} printed no figures", self.program);
        Ok(figures)
    }

    fn figure(&self, row: &str) -> Result<Figure> {
        let words: Vec<&str> = row.split_whitespace().collect();
        let column = |index: usize| -> Result<f64> {
            let value = words.get(index).and_then(|word| word.parse::<f64>().ok());
            value
                .filter(|value| value.is_finite())
                .with_context(|| format!("perftest printed {row:?} where figures should be"))
        };
        let (value, mean) = match self.column {
            Column::Latency => (column(TYPICAL)?, Some(column(MEAN)?)),
            Column::Bandwidth => (column(AVERAGE_BANDWIDTH)? * BYTES_PER_MIB / 1e6, None),
            Column::Messages => (column(MESSAGE_RATE)?, None),
        };
        let size = words[0]
            .parse::<u64>()
            .with_context(|| format!("perftest printed {row:?}"))?;
        Ok(Figure {
            size: self.point.map_or_else(|| size.to_string(), str::to_owned),
            value,
            mean,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = "---\n #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n \
        2       1000          13.17          3746.57      32.40    \t       120.82      \t377.55\n \
        4       1000          13.17          3746.57      33.40    \t       121.82      \t377.55\n---\n";
    const BANDWIDTH: &str = " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n \
        65536      500              39192.75            1000.00\t\t     0.098614\n";

    fn read(column: Column, output: &str) -> Result<Vec<Figure>> {
        let tool = Perftest {
            program: "ib_x",
            options: "-a",
            iterations: [10, 5],
            column,
            point: None,
        };
        tool.figures(output)
    }

    #[test]
    fn every_size_has_its_figure() {
        let figures = read(Column::Latency, LATENCY).unwrap();
        let told: Vec<_> = figures
            .iter()
            .map(|figure| (figure.size.as_str(), figure.value, figure.mean))
            .collect();
        assert_eq!(
            told,
            [("2", 32.40, Some(120.82)), ("4", 33.40, Some(121.82))]
        );
    }

    #[test]
    fn bandwidth_is_in_megabytes_and_messages_are_in_millions() {
        assert_eq!(
            read(Column::Bandwidth, BANDWIDTH).unwrap()[0].value,
            1048.576
        );
        assert_eq!(
            read(Column::Messages, BANDWIDTH).unwrap()[0].value,
            0.098614
        );
    }

    #[test]
    fn silence_and_rubbish_are_errors() {
        for output in [
            "",
            "#bytes",
            "#bytes\n",
            "#bytes\n a b c d e f",
            "#bytes\n 2 3 nan nan nan nan",
            "#bytes\n 2 1",
        ] {
            assert!(read(Column::Latency, output).is_err(), "{output:?}");
        }
    }

    #[test]
    fn a_short_run_sends_less() {
        let tool = Perftest {
            program: "ib_send_lat",
            options: "-a -e",
            iterations: [1000, 200],
            column: Column::Latency,
            point: None,
        };
        assert_eq!(
            tool.commands(Scale::Full).client,
            "ib_send_lat -x 1 -F -a -e -n 1000 $A"
        );
        assert_eq!(
            tool.commands(Scale::Short).server,
            "ib_send_lat -x 1 -F -a -e -n 200"
        );
        assert_eq!(
            tool.warm_up().client,
            "ib_send_lat -x 1 -F -e -n 20 $A",
            "one size is enough to warm up"
        );
    }
}
