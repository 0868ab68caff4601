//! NetPIPE over MPI: a message of each size is sent there and back.
//!
//! ```text
//!   1:       2 bytes      5 times -->      3.48 Mbps in       4.39 usec
//! ```
//!
//! Its time is half the round trip. Its Mbps are 2^20 bits a second, so the bandwidth is computed from the time.

use anyhow::{Context, Result, ensure};

use super::Figure;

/// The figure that is read from a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetPipe {
    /// Latency in us.
    Latency,
    /// Bandwidth in MB/s.
    Bandwidth,
}

impl NetPipe {
    pub(super) fn figures(self, output: &str) -> Result<Vec<Figure>> {
        let lines = output.lines().filter(|line| line.contains("-->"));
        let figures = lines
            .map(|line| {
                let told = || format!("NetPIPE printed {line:?}");
                self.figure(line).with_context(told)
            })
            .collect::<Result<Vec<_>>>()?;
        ensure!(!figures.is_empty(), "NetPIPE printed no figures");
        Ok(figures)
    }

    fn figure(self, line: &str) -> Option<Figure> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [
            _,
            size,
            "bytes",
            _,
            "times",
            "-->",
            _,
            "Mbps",
            "in",
            time,
            "usec",
        ] = words[..]
        else {
            return None;
        };
        let (bytes, time) = (size.parse::<u32>().ok()?, time.parse::<f64>().ok()?);
        let value = match self {
            Self::Latency => time,
            Self::Bandwidth => f64::from(bytes) / time,
        };
        (value.is_finite() && value > 0.0).then(|| Figure {
            size: size.to_owned(),
            value,
            mean: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "0: vm\nNow starting the main loop\n  0:       1 bytes      5 times -->      1.62 Mbps in       4.70 usec\n \
        10:      48 bytes      5 times -->     68.88 Mbps in       4.80 usec\n";

    fn read(what: NetPipe, output: &str) -> Vec<(String, f64)> {
        let figures = what.figures(output).unwrap();
        figures
            .into_iter()
            .map(|figure| (figure.size, figure.value))
            .collect()
    }

    #[test]
    fn every_size_has_its_figure() {
        let told = read(NetPipe::Latency, OUTPUT);
        assert_eq!(told, [("1".to_owned(), 4.7), ("48".to_owned(), 4.8)]);
        assert_eq!(read(NetPipe::Bandwidth, OUTPUT)[1], ("48".to_owned(), 10.0));
    }

    #[test]
    fn silence_and_rubbish_are_errors() {
        for output in [
            "",
            "0: 1 bytes -->",
            "0: 1 bytes 5 times --> 0 Mbps in 0.0 usec",
            "0: 1 bytes 5 times --> 0 Mbps in inf usec",
        ] {
            assert!(NetPipe::Latency.figures(output).is_err(), "{output:?}");
            assert!(NetPipe::Bandwidth.figures(output).is_err(), "{output:?}");
        }
    }
}
