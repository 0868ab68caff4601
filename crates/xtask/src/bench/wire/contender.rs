//! Measures one pair of guests or processes, and the hosts below them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use vrdma_lab::daemon::Daemon;
use vrdma_lab::image::Image;
use vrdma_lab::pair::Side;
use vrdma_lab::place::{self, Place};
use vrdma_lab::process::{Lifetime, Supervised};
use vrdma_lab::steps::Steps;
use vrdma_lab::wire::{self, WiredHosts};

use crate::bench::processor::processor_time;
use crate::counters;
use crate::demo::{Figure, Measure, Samples, perftest, qperf};

/// Twenty times as long as the slowest takes; one that hangs is reported, not waited for.
const RUN_LIMIT: Duration = Duration::from_secs(120);

const BYTES_PER_GIB: f64 = 1_073_741_824.0;

/// Title, measure, program. perftest takes the middle one of three seconds.
const CELLS: &[(&str, Measure, &str)] = &[
    ("write latency, 2 B", Measure::OneWay, "ib_write_lat -n 300"),
    ("send latency, 2 B", Measure::OneWay, "ib_send_lat -n 300"),
    (
        "message rate, 64 B",
        Measure::Messages,
        "ib_write_bw -s 64 -D 3 -f 1",
    ),
    (
        "write bandwidth, 64 KiB",
        Measure::Bandwidth,
        "ib_write_bw -s 65536 -D 3 -f 1",
    ),
    (
        "write bandwidth, 1 MiB",
        Measure::Bandwidth,
        "ib_write_bw -s 1048576 -D 3 -f 1",
    ),
];

/// The cell of goodput and of the daemons' time.
const GOODPUT: usize = 3;

const TCP: &[(&str, Measure)] = &[
    ("TCP latency", Measure::OneWay),
    ("TCP bandwidth", Measure::Bandwidth),
];

/// One contender in one cell.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) contender: String,
    pub(super) cell: String,
    pub(super) unit: &'static str,
    pub(super) samples: Option<Samples>,
    /// The reason why there are no samples.
    pub(super) failure: Option<String>,
}

impl Figures {
    pub(super) fn failed(contender: &str, error: &anyhow::Error) -> Self {
        Self::new(contender, "boot", "", Err(anyhow::anyhow!("{error:#}")))
    }

    fn new(contender: &str, cell: &str, unit: &'static str, outcome: Result<Samples>) -> Self {
        let (samples, failure) = match outcome {
            Ok(samples) => (Some(samples), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Self {
            contender: contender.to_owned(),
            cell: cell.to_owned(),
            unit,
            samples,
            failure,
        }
    }
}

/// Two places that are up.
pub(super) struct Contender<'a> {
    pub(super) name: &'a str,
    /// The places of the server and of the client.
    pub(super) places: [&'a dyn Place; 2],
    pub(super) daemons: &'a [Daemon],
    pub(super) wire: Option<&'a WiredHosts>,
    pub(super) vrdma: &'a Path,
    pub(super) repetitions: u32,
    pub(super) steps: &'a Steps,
}

impl Contender<'_> {
    pub(super) fn all(&self) -> Vec<Figures> {
        let mut figures = self.cells();
        figures.extend(TCP.iter().map(|&(title, measure)| self.tcp(title, measure)));
        if !self.daemons.is_empty() {
            figures.push(self.daemons_time());
        }
        figures
    }

    /// The figures of processes. Their TCP is that of the hosts, without any guest or daemon.
    pub(super) fn processes(&self, hosts_too: bool) -> Vec<Figures> {
        let mut figures = self.cells();
        figures.push(self.daemons_time());
        if hosts_too {
            let tcp = TCP.iter();
            figures.extend(tcp.map(|&(title, measure)| self.host_tcp(title, measure)));
        }
        figures
    }

    /// The rates that pass through a wire that loses frames.
    pub(super) fn goodput(&self) -> Vec<Figures> {
        let (title, measure, program) = CELLS[GOODPUT];
        let cell = self.cell(title, measure, program);
        let (title, measure) = TCP[1];
        vec![cell, self.tcp(title, measure)]
    }

    fn cells(&self) -> Vec<Figures> {
        let cells = CELLS.iter();
        cells
            .map(|&(title, measure, program)| self.cell(title, measure, program))
            .collect()
    }

    fn cell(&self, title: &str, measure: Measure, program: &str) -> Figures {
        let server = format!("{program} -x 1 -F");
        let client = format!("{server} $A");
        self.figures(self.name.to_owned(), title, measure.unit(), || {
            Ok(perftest::figure(measure, &self.once(&server, &client)?)?.value)
        })
    }

    fn tcp(&self, title: &str, measure: Measure) -> Figures {
        let name = format!("TCP in {} guests", self.name);
        self.figures(name, title, measure.unit(), || {
            let output = self.once(qperf::SERVER, qperf::client(measure))?;
            Ok(qperf::figure(&output)?.value)
        })
    }

    /// Processor time of both daemons for the traffic that they carry, in seconds a GiB.
    fn daemons_time(&self) -> Figures {
        let (title, _, program) = CELLS[GOODPUT];
        let server = format!("{program} -x 1 -F");
        let client = format!("{server} $A");
        let name = format!("both daemons, {title}");
        self.figures(self.name.to_owned(), &name, "s/GiB", || {
            let before = self.spent()?;
            self.once(&server, &client)?;
            let after = self.spent()?;
            let bytes = (after.1 - before.1) as f64;
            ensure!(bytes > 0.0, "the daemons carried nothing");
            Ok((after.0 - before.0).as_secs_f64() * BYTES_PER_GIB / bytes)
        })
    }

    fn spent(&self) -> Result<(Duration, u64)> {
        let daemons = self.daemons.iter();
        let times = daemons.map(|daemon| processor_time(daemon.process_id()));
        let time = times.sum::<Result<Duration>>()?;
        let adapters = counters::all(self.daemons, self.vrdma)?;
        Ok((time, counters::rdma_sum(&adapters, "tx_bytes")))
    }

    /// TCP of the hosts' own kernels over the same veth pair.
    fn host_tcp(&self, title: &str, measure: Measure) -> Figures {
        self.figures("TCP of the hosts".to_owned(), title, measure.unit(), || {
            Ok(host_qperf(self.wire, qperf::client(measure))?.value)
        })
    }

    fn figures(
        &self,
        contender: String,
        cell: &str,
        unit: &'static str,
        once: impl Fn() -> Result<f64>,
    ) -> Figures {
        let step = self.steps.start(&format!("{contender}: {cell}"));
        let values = (0..self.repetitions).map(|_| once());
        let outcome = values
            .collect::<Result<Vec<f64>>>()
            .and_then(|values| Samples::of(values).context("there is at least one repetition"));
        step.done();
        Figures::new(&contender, cell, unit, outcome)
    }

    fn once(&self, server: &str, client: &str) -> Result<String> {
        let client = place::run(self.places, server, client, RUN_LIMIT)?.client;
        let text = client.stdout_text();
        ensure!(
            client.status == 0,
            "it ended with status {}:\n{text}{}",
            client.status,
            client.stderr_text()
        );
        Ok(text)
    }
}

/// Runs the image's qperf on the hosts; the client tries until the server listens.
fn host_qperf(hosts: Option<&WiredHosts>, client: &str) -> Result<Figure> {
    let hosts = hosts.context("there are two hosts")?;
    let image = Image::ensure()?;
    let server = hosts.host(Side::A).command(&image.program("usr/bin/qperf"));
    let _server = Supervised::spawn(&server, None, Lifetime::Owned)?;
    let mut program = image.program("usr/bin/qperf");
    let words = client.split_whitespace().skip(1);
    program.args(words.map(|word| match word {
        "$A" => wire::address(Side::A).to_string(),
        word => word.to_owned(),
    }));
    let output = hosts.host(Side::B).command(&program).output()?;
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(output.status.success(), "qperf: {text}{errors}");
    qperf::figure(&text)
}
