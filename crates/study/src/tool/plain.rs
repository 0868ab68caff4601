//! Programs that print their figures as such: `figure SIZE VALUE UNIT mean MEAN`, one a line, with VALUE in the cell's
//! unit; UNIT and MEAN may be missing.
//!
//! They check their results themselves and exit with a status other than 0 when one is wrong.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Commands, Figure, NetPipe, cavity};
use crate::cell::Setting;
use crate::plan::Scale;
use crate::programs::Own;

/// Seconds of mpirun's start in a guest, on an emulated processor.
const START_IN_GUEST: u64 = 5;

/// The form of a program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Lines of figures.
    Lines,
    /// A line of JSON with `seconds`, and the name of that figure.
    Seconds(&'static str),
    /// icoFoam's log, and the name of its figure.
    Cavity(&'static str),
    /// NetPIPE's table.
    NetPipe(NetPipe),
}

/// A program of `programs/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    /// Command on side a; empty where mpirun starts both.
    pub server: String,
    /// Command on side b, in a full run and in a short one.
    pub client: [String; 2],
    /// The program.
    pub own: Own,
    /// How its output is read.
    pub reads: Reads,
    /// A program that must be installed, and Debian's package of it.
    pub needs: (&'static str, &'static str),
    /// Seconds of a turn between processes, about.
    pub seconds: u64,
    /// Longest time in seconds.
    pub limit: u64,
}

impl Plain {
    pub(super) fn commands(&self, scale: Scale) -> Commands {
        Commands {
            server: self.server.clone(),
            client: self.client[usize::from(scale == Scale::Short)].clone(),
        }
    }

    /// Seconds of a turn, about: the measurement, and mpirun's start in each guest.
    pub(super) fn seconds(&self, setting: Setting) -> u64 {
        self.seconds + START_IN_GUEST * u64::from(setting.guests_in_all())
    }
}

impl Reads {
    pub(super) fn figures(self, output: &str) -> Result<Vec<Figure>> {
        match self {
            Self::Lines => figures(output),
            Self::Seconds(point) => Ok(vec![single(point, seconds(output)?)]),
            Self::NetPipe(what) => what.figures(output),
            Self::Cavity(point) => Ok(vec![single(point, cavity::seconds(output)?)]),
        }
    }
}

fn single(point: &str, value: f64) -> Figure {
    Figure {
        size: point.to_owned(),
        value,
        mean: None,
    }
}

fn seconds(output: &str) -> Result<f64> {
    let lines = output
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let seconds = lines.filter_map(|line| line["seconds"].as_f64()).next();
    seconds.context("the program printed no seconds")
}

fn figures(output: &str) -> Result<Vec<Figure>> {
    let lines = output
        .lines()
        .filter_map(|line| line.trim().strip_prefix("figure "));
    let figures = lines.map(figure).collect::<Result<Vec<_>>>()?;
    ensure!(!figures.is_empty(), "the program printed no figures");
    Ok(figures)
}

fn figure(line: &str) -> Result<Figure> {
    let mut words = line.split_whitespace();
    let (Some(size), Some(value)) = (words.next(), words.next()) else {
        anyhow::bail!("the program printed {line:?} where a size and a value should be");
    };
    let value: f64 = value
        .parse()
        .with_context(|| format!("the program printed {line:?}"))?;
    ensure!(value.is_finite(), "the program printed {line:?}");
    let mean = words.skip_while(|word| *word != "mean").nth(1);
    Ok(Figure {
        size: size.to_owned(),
        value,
        mean: mean.and_then(|mean| mean.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_figures_are_taken_and_others_are_not() {
        let read =
            figures("hello\nfigure 1 2.5 us mean 3.5\n  figure 1GB.2 0.25 s\nbye\n").unwrap();
        let told: Vec<_> = read
            .iter()
            .map(|figure| (figure.size.as_str(), figure.value, figure.mean))
            .collect();
        assert_eq!(told, [("1", 2.5, Some(3.5)), ("1GB.2", 0.25, None)]);
    }

    #[test]
    fn seconds_are_read_from_json() {
        let read = Reads::Seconds("1GB").figures("hello\n{\"role\":\"sent\",\"seconds\":0.5}\n");
        assert_eq!((read.unwrap()[0].value), 0.5);
        assert!(Reads::Seconds("1GB").figures("{\"bytes\":1}").is_err());
    }

    #[test]
    fn silence_and_rubbish_are_errors() {
        for output in ["", "figure 1", "figure 1 x", "figure 1 inf"] {
            assert!(figures(output).is_err(), "{output:?}");
        }
    }
}
