//! `vrdma-sim`: runs seeds, or one of them line by line.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Parser;
use vrdma_sim::{Journeys, Kind, Options, Sabotage, Summary, run};
use vrdma_uplink::Pcap;
use vrdma_verbs::Time;

/// How long a night is.
const NIGHT: Duration = Duration::from_secs(8 * 3600);

/// In a night, one seed in this many has devices, and the one after it a crowd.
const OTHERS_EVERY: u64 = 4;

/// Clusters of adapters and switches on a fake clock, checked message by message.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Run this seed alone, and show what happened
    #[arg(long)]
    seed: Option<u64>,
    /// Show every line of the run
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Write the frames of the run, for Wireshark
    #[arg(long, requires = "seed", value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Run this many seeds
    #[arg(long, default_value_t = 1000, conflicts_with = "seed")]
    seeds: u64,
    /// Begin with this seed
    #[arg(long, default_value_t = 0, conflicts_with = "seed")]
    from: u64,
    /// Run fresh seeds for eight hours
    #[arg(long, conflicts_with_all = ["seed", "seeds", "from"])]
    nights: bool,
    /// Adapters are PVRDMA devices of guests, which go to other hosts
    #[arg(long, conflicts_with = "sabotage")]
    devices: bool,
    /// Adapters want more than they can get, and share by weights, limits and guarantees
    #[arg(long, conflicts_with_all = ["sabotage", "devices"])]
    crowds: bool,
    /// Guests of devices are away for longer than their peers' retries last
    #[arg(long, requires = "devices")]
    long: bool,
    /// Peers of those guests are not told; the run should be a failure
    #[arg(long, requires = "long")]
    untold: bool,
    /// Break every adapter in this way; the run should be a failure
    #[arg(long)]
    sabotage: Option<String>,
}

impl Arguments {
    /// Returns the kind of a seed's run.
    fn kind(&self, seed: u64, sabotage: Option<Sabotage>) -> Kind {
        match seed % OTHERS_EVERY {
            _ if self.devices => Kind::Devices,
            _ if self.crowds => Kind::Crowds,
            0 if self.nights && sabotage.is_none() => Kind::Devices,
            1 if self.nights && sabotage.is_none() => Kind::Crowds,
            _ => sabotage.map(Sabotage::kind).unwrap_or_default(),
        }
    }

    fn journeys(&self) -> Journeys {
        match (self.long, self.untold) {
            (false, _) => Journeys::Short,
            (true, false) => Journeys::Long,
            (true, true) => Journeys::LongUntold,
        }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let sabotage = arguments.sabotage.as_deref().map(named).transpose()?;
    match arguments.seed {
        Some(seed) => {
            let options = Options {
                seed,
                trace: true,
                kind: arguments.kind(seed, sabotage),
                journeys: arguments.journeys(),
                sabotage,
            };
            show(options, &arguments)
        }
        None => run_many(&arguments, sabotage),
    }
}

fn named(name: &str) -> Result<Sabotage> {
    let names = Sabotage::ALL.map(|(_, name)| name).join(", ");
    Sabotage::named(name).with_context(|| format!("`{name}` is no sabotage; there are {names}"))
}

fn show(options: Options, arguments: &Arguments) -> Result<()> {
    let report = run(options);
    if arguments.trace {
        let mut out = BufWriter::new(io::stdout().lock());
        // The reader of a long trace may have closed the pipe.
        let _ = report
            .trace
            .iter()
            .try_for_each(|line| writeln!(out, "{line}"));
    }
    if let Some(path) = &arguments.pcap {
        write(path, &report.frames).with_context(|| format!("writing {}", path.display()))?;
    }
    let ended = Duration::from_nanos(report.ended.0);
    let summary = report
        .outcome
        .with_context(|| format!("seed {}, after {ended:?}", options.seed))?;
    println!("seed {} is good after {ended:?}", options.seed);
    print(&summary);
    Ok(())
}

fn write(path: &Path, frames: &[(Time, Vec<u8>)]) -> io::Result<()> {
    let mut pcap = Pcap::new(BufWriter::new(File::create(path)?))?;
    for (at, frame) in frames {
        pcap.write_at(Duration::from_nanos(at.0), frame)?;
    }
    pcap.flush()
}

fn run_many(arguments: &Arguments, sabotage: Option<Sabotage>) -> Result<()> {
    let started = Instant::now();
    let first = if arguments.nights {
        fresh_seed()
    } else {
        arguments.from
    };
    let mut total = Summary::default();
    for seed in first.. {
        let over = match arguments.nights {
            true => started.elapsed() > NIGHT,
            false => seed - first >= arguments.seeds,
        };
        if over {
            break;
        }
        let kind = arguments.kind(seed, sabotage);
        let report = run(Options {
            seed,
            trace: false,
            kind,
            journeys: arguments.journeys(),
            sabotage,
        });
        match report.outcome {
            Ok(summary) => total += summary,
            Err(violation) => {
                let flag = match (kind, arguments.journeys()) {
                    (Kind::Engines, _) => "",
                    (Kind::Crowds, _) => " --crowds",
                    (Kind::Devices, Journeys::Short) => " --devices",
                    (Kind::Devices, Journeys::Long) => " --devices --long",
                    (Kind::Devices, Journeys::LongUntold) => " --devices --long --untold",
                };
                bail!("seed {seed}: {violation}\nto see it: vrdma-sim --seed {seed}{flag} --trace")
            }
        }
    }
    print(&total);
    Ok(())
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs()) << 24
}

fn print(summary: &Summary) {
    for (name, number) in summary.numbers() {
        println!("{number:12} {name}");
    }
}
