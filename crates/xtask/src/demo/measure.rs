//! Boots the pairs and measures every cell in them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use vrdma_lab::guest::Kind;
use vrdma_lab::pair::{Network, Pair, PairConfig};
use vrdma_lab::steps::Steps;

use super::cells::{CELLS, Cell, Measure};
use super::samples::{Figure, Samples};
use super::{perftest, qperf};

/// A hundred times as long as a run takes on an idle machine; one that hangs is reported, not waited for.
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// One contender in one cell.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Entry {
    /// The client's command, in guest b.
    pub(super) command: String,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// The outcome of a contender's cell.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Figures {
        #[serde(flatten)]
        samples: Samples,
        /// Means of the same repetitions, for latency.
        mean: Option<Samples>,
    },
    /// The reason why there are no figures.
    Failure(String),
}

/// One row of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) title: &'static str,
    pub(super) measure: Measure,
    pub(super) unit: &'static str,
    pub(super) vrdma: Entry,
    pub(super) rxe: Entry,
    /// The same value in all cells of latency, and in all of bandwidth.
    pub(super) tcp: Entry,
    /// How many times better vrdma is.
    pub(crate) beside_rxe: Option<f64>,
    pub(crate) beside_tcp: Option<f64>,
}

/// Measures everything. Failures are entries, since the other cells are still worth seeing.
pub(crate) fn compare(program: &Path, repetitions: u32, steps: &Steps) -> Vec<Comparison> {
    let start = |kind| booted(program, kind, steps);
    let (vrdma, tcp) = {
        let bench = Bench {
            pair: start(Kind::Vrdma),
            repetitions,
            steps,
        };
        let vrdma = bench.cells(Kind::Vrdma);
        (
            vrdma,
            [Measure::OneWay, Measure::Bandwidth].map(|measure| bench.tcp(measure)),
        )
    };
    let rxe = Bench {
        pair: start(Kind::Rxe),
        repetitions,
        steps,
    }
    .cells(Kind::Rxe);
    let entries = vrdma.into_iter().zip(rxe);
    let rows = CELLS.iter().zip(entries);
    rows.map(|(cell, (vrdma, rxe))| {
        let tcp = &tcp[usize::from(!cell.measure.is_latency())];
        Comparison::new(cell, vrdma, rxe, tcp.clone())
    })
    .collect()
}

fn booted(program: &Path, kind: Kind, steps: &Steps) -> Result<Pair> {
    let step = steps.start(&format!("boot two {kind} guests"));
    let network = Network::Daemon(program.to_owned());
    let pair = Pair::start(&PairConfig {
        kinds: [kind; 2],
        ..PairConfig::new(network)
    })?;
    step.done();
    Ok(pair)
}

/// A pair, or the reason why there is none.
struct Bench<'a> {
    pair: Result<Pair>,
    repetitions: u32,
    steps: &'a Steps,
}

impl Bench<'_> {
    fn cells(&self, kind: Kind) -> Vec<Entry> {
        CELLS.iter().map(|cell| self.cell(kind, cell)).collect()
    }

    fn cell(&self, kind: Kind, cell: &Cell) -> Entry {
        let server = cell.command(kind == Kind::Rxe);
        let client = format!("{server} $A");
        let name = format!("{kind}: {}", cell.title);
        self.entry(&name, &server, client, |output| {
            perftest::figure(cell.measure, output)
        })
    }

    fn tcp(&self, measure: Measure) -> Entry {
        let client = qperf::client(measure).to_owned();
        let name = if measure.is_latency() {
            "TCP: latency"
        } else {
            "TCP: bandwidth"
        };
        self.entry(name, qperf::SERVER, client, qperf::figure)
    }

    fn entry(
        &self,
        name: &str,
        server: &str,
        client: String,
        figure: impl Fn(&str) -> Result<Figure>,
    ) -> Entry {
        let step = self.steps.start(name);
        let values = (1..=self.repetitions).map(|repetition| {
            step.say(&format!("{repetition} of {}", self.repetitions));
            self.once(server, &client)
                .and_then(|output| figure(&output))
        });
        let outcome = match values.collect::<Result<Vec<Figure>>>() {
            Ok(figures) => {
                step.done();
                Outcome::of(&figures)
            }
            Err(error) => Outcome::Failure(format!("{error:#}")),
        };
        Entry {
            command: client,
            outcome,
        }
    }

    fn once(&self, server: &str, client: &str) -> Result<String> {
        let pair = match &self.pair {
            Ok(pair) => pair,
            Err(error) => anyhow::bail!("{error:#}"),
        };
        let client = pair.run(server, client, RUN_LIMIT)?.client;
        let text = || format!("{}{}", client.stdout_text(), client.stderr_text());
        ensure!(
            client.status == 0,
            "it ended with status {}:\n{}",
            client.status,
            text()
        );
        Ok(client.stdout_text())
    }
}

impl Outcome {
    fn of(figures: &[Figure]) -> Self {
        let values = figures.iter().map(|figure| figure.value);
        let means = figures.iter().filter_map(|figure| figure.mean);
        Self::Figures {
            samples: Samples::of(values.collect()).expect("there is at least one repetition"),
            mean: Samples::of(means.collect()),
        }
    }
}

impl Comparison {
    pub(crate) fn is_bandwidth(&self) -> bool {
        self.measure == Measure::Bandwidth
    }

    pub(crate) fn is_round_trip(&self) -> bool {
        self.measure == Measure::RoundTrip
    }

    fn new(cell: &Cell, vrdma: Entry, rxe: Entry, tcp: Entry) -> Self {
        let tcp_ways = if cell.measure == Measure::RoundTrip {
            2.0
        } else {
            1.0
        };
        let ratio = |other: &Entry, ways: f64| times_as_good(cell.measure, &vrdma, other, ways);
        Self {
            title: cell.title,
            measure: cell.measure,
            unit: cell.measure.unit(),
            beside_rxe: ratio(&rxe, 1.0).ok(),
            beside_tcp: ratio(&tcp, tcp_ways).ok(),
            vrdma,
            rxe,
            tcp,
        }
    }
}

fn times_as_good(measure: Measure, ours: &Entry, other: &Entry, ways: f64) -> Result<f64> {
    let ours = ours.samples().context("no figure of ours")?.median;
    let other = other.samples().context("no figure to compare with")?.median;
    Ok(if measure.is_latency() {
        other * ways / ours
    } else {
        ours / other
    })
}

impl Entry {
    pub(crate) fn samples(&self) -> Option<&Samples> {
        match &self.outcome {
            Outcome::Figures { samples, .. } => Some(samples),
            Outcome::Failure(_) => None,
        }
    }

    pub(crate) fn mean(&self) -> Option<&Samples> {
        match &self.outcome {
            Outcome::Figures { mean, .. } => mean.as_ref(),
            Outcome::Failure(_) => None,
        }
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Figures { .. } => None,
            Outcome::Failure(reason) => Some(reason),
        }
    }
}
