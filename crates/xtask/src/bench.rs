//! `cargo xtask bench`: the figures of the house plan's targets.
//!
//! Each benchmark makes findings: a value, its unit and the target beside it. They are printed as a table and written
//! to `target/bench/NAME.json` with facts about the machine. A missed target is reported and is no failure: figures
//! depend on the machine, and no test depends on them.

mod adapters;
mod example;
mod finding;
mod idle;
mod instructions;
mod kept;
mod opened;
mod process;
mod processor;
mod protection;
mod registration;
mod tenants;
mod two_programs;
mod vm_pair;
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use vrdma_lab::image::Image;

use crate::demo::{Machine, warn_when_busy};
use crate::named::Only;
use finding::{Finding, render};

/// Measure what the targets are about; writes target/bench/NAME.json.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Benchmarks to run; all if absent
    names: Vec<String>,
    /// List the names
    #[arg(long)]
    list: bool,
    /// Print the contents of the file instead of tables
    #[arg(long)]
    json: bool,
    /// How often each cell of vm-pair, wire, process, tenants, adapters, opened, kept, protection and registration is
    /// measured
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    #[command(flatten)]
    only: Only,
}

/// The findings of a benchmark, and all that it measured.
struct Measured {
    findings: Vec<Finding>,
    details: Value,
    /// Printed before the findings.
    table: Option<String>,
}

struct Benchmark {
    name: &'static str,
    about: &'static str,
    /// Names that `--only` chooses from; none for a benchmark of one or two figures.
    rows: fn() -> Vec<String>,
    run: fn(&Arguments) -> Result<Measured>,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "vm-pair",
        about: "latency and bandwidth between two guests, beside rxe and TCP",
        rows: Vec::new,
        run: vm_pair::run,
    },
    Benchmark {
        name: "wire",
        about: "RDMA between two hosts, clean and lossy, beside rxe and TCP over the same veth pair",
        rows: wire::rows,
        run: wire::run,
    },
    Benchmark {
        name: "process",
        about: "RDMA between two processes, beside sockets, UCX over shared memory and plain copies",
        rows: process::rows,
        run: process::run,
    },
    Benchmark {
        name: "engine",
        about: "64-byte operations a second on one shard, driver and device in one process",
        rows: Vec::new,
        run: |_| example::run(&example::ENGINE),
    },
    Benchmark {
        name: "instructions",
        about: "instructions of a 64-byte write on one shard, driver included",
        rows: Vec::new,
        run: |_| instructions::run(),
    },
    Benchmark {
        name: "shards",
        about: "64-byte writes a second of two shards on two cores, beside one",
        rows: Vec::new,
        run: |_| example::run(&example::SHARDS),
    },
    Benchmark {
        name: "neighbour",
        about: "longest times of a guest's messages beside a greedy guest, in one process",
        rows: Vec::new,
        run: |_| example::run(&example::NEIGHBOUR),
    },
    Benchmark {
        name: "tenants",
        about: "two tenants by perftest: their shares, and one's latency beside a greedy one, beside that beside CPU hogs",
        rows: tenants::rows,
        run: tenants::run,
    },
    Benchmark {
        name: "silent",
        about: "processor time of a shard beside a hundred guests that are silent",
        rows: Vec::new,
        run: |_| example::run(&example::SILENT),
    },
    Benchmark {
        name: "idle",
        about: "processor time of a daemon with two idle guests",
        rows: Vec::new,
        run: |_| idle::run(),
    },
    Benchmark {
        name: "adapters",
        about: "time and memory of ten thousand adapters that nobody uses",
        rows: Vec::new,
        run: adapters::run,
    },
    Benchmark {
        name: "opened",
        about: "latency of two programs beside a thousand adapters, opened and unopened, beside that without any",
        rows: Vec::new,
        run: opened::run,
    },
    Benchmark {
        name: "kept",
        about: "rate and latency of two programs beside a daemon with a keeper, and beside one without",
        rows: Vec::new,
        run: kept::run,
    },
    Benchmark {
        name: "protection",
        about: "what sandbox, a tunnel's key, overflow checks and a guard on interrupts cost",
        rows: protection::rows,
        run: protection::run,
    },
    Benchmark {
        name: "registration",
        about: "what registering memory costs, in processes and in guests, beside rxe in guests",
        rows: Vec::new,
        run: registration::run,
    },
    Benchmark {
        name: "queue-pair",
        about: "memory of an idle queue pair",
        rows: Vec::new,
        run: |_| example::run(&example::QUEUE_PAIR),
    },
];

/// The contents of a benchmark's file.
#[derive(Serialize)]
struct Record<'a> {
    benchmark: &'a str,
    machine: &'a Machine,
    findings: &'a [Finding],
    details: Value,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.list {
        for benchmark in BENCHMARKS {
            println!("{:<14}{}", benchmark.name, benchmark.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(&arguments.names, &arguments.only)?;
    warn_when_busy();
    let machine = Machine::look(&Image::ensure()?)?;
    let mut code = ExitCode::SUCCESS;
    for benchmark in chosen {
        if let Err(error) = measure(benchmark, arguments, &machine) {
            eprintln!("error: {}: {error:#}", benchmark.name);
            code = ExitCode::FAILURE;
        }
    }
    if !arguments.json {
        println!("\n{}.", machine.facts);
    }
    Ok(code)
}

/// The named benchmarks, or all if none is named; with `--only`, those of them with a row that it selects.
fn chosen(names: &[String], only: &Only) -> Result<Vec<&'static Benchmark>> {
    let all: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
    if let Some(unknown) = names.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("no such benchmark: {unknown}; there are {}", all.join(", "));
    }
    let wanted = |benchmark: &&Benchmark| {
        names.is_empty() || names.iter().any(|name| name == benchmark.name)
    };
    let mut chosen: Vec<&Benchmark> = BENCHMARKS.iter().filter(wanted).collect();
    let rows: Vec<String> = chosen.iter().flat_map(|one| (one.rows)()).collect();
    only.check(&rows)?;
    let meant = |one: &Benchmark| (one.rows)().iter().any(|row| only.means(row));
    chosen.retain(|one| only.means_all() || meant(one));
    Ok(chosen)
}

fn measure(benchmark: &Benchmark, arguments: &Arguments, machine: &Machine) -> Result<()> {
    let measured = (benchmark.run)(arguments)?;
    let record = Record {
        benchmark: benchmark.name,
        machine,
        findings: &measured.findings,
        details: measured.details,
    };
    let path = folder()?.join(format!("{}.json", benchmark.name));
    let text = serde_json::to_string_pretty(&record)?;
    write(&path, text.as_bytes())?;
    if arguments.json {
        println!("{text}");
        return Ok(());
    }
    if let Some(table) = &measured.table {
        println!("\n{table}");
    }
    println!(
        "\n{}: {}\n{}",
        benchmark.name,
        benchmark.about,
        render(&measured.findings)
    );
    println!("{}", path.display());
    Ok(())
}

/// Returns `bench` in cargo's target folder, two levels above this program.
fn folder() -> Result<PathBuf> {
    let program = env::current_exe()?;
    let target = program
        .ancestors()
        .nth(2)
        .context("this program lies in no target folder")?;
    Ok(target.join("bench"))
}

fn write(path: &Path, contents: &[u8]) -> Result<()> {
    let folder = path.parent().context("the file has a folder")?;
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, contents))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn names(words: &[&str]) -> Result<Vec<&'static str>> {
        let words = std::iter::once(&"bench").chain(words);
        let arguments = <Line as clap::Parser>::try_parse_from(words)?.arguments;
        let chosen = chosen(&arguments.names, &arguments.only)?;
        Ok(chosen.iter().map(|benchmark| benchmark.name).collect())
    }

    #[test]
    fn names_choose_and_none_means_all() {
        assert_eq!(names(&["idle"]).unwrap(), ["idle"]);
        assert_eq!(names(&[]).unwrap().len(), BENCHMARKS.len());
        let refused = names(&["idle", "speed"]).unwrap_err().to_string();
        assert!(refused.contains("speed; there are vm-pair, "), "{refused}");
    }

    #[test]
    fn rows_choose_their_benchmarks_and_unknown_ones_are_refused() {
        assert_eq!(names(&["--only", "rxe"]).unwrap(), ["wire"]);
        assert_eq!(names(&["--only", "ib_write_lat"]).unwrap(), ["process"]);
        let refused = |words: &[&str]| names(words).unwrap_err().to_string();
        let sentence = refused(&["wire", "--only", "host"]);
        assert!(
            sentence.contains("\"host\" in its name; the rows are: vrdma, raw; "),
            "{sentence}"
        );
        assert!(refused(&["process", "--only", "rxe"]).contains("ib_send_lat; "));
        assert!(refused(&["idle", "--only", "rxe"]).contains("no rows to choose from"));
    }
}
