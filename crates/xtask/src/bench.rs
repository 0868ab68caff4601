//! `cargo xtask bench`: the figures of the house plan's targets.
//!
//! Each benchmark makes findings: a value, its unit and the target beside it. They are printed as a
//! table and written to `target/bench/NAME.json` with the machine's facts. A target that is missed is
//! told and is no failure: figures depend on the machine, and no test waits for them.

mod example;
mod finding;
mod idle;
mod process;
mod processor;
mod vm_pair;
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use vrdma_lab::image::Image;

use crate::demo::{Machine, warn_when_busy};
use finding::{Finding, render};

/// Measure what the targets are about; writes target/bench/NAME.json.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Which; all without one
    names: Vec<String>,
    /// List the names
    #[arg(long)]
    list: bool,
    /// Print what is written to the file instead of tables
    #[arg(long)]
    json: bool,
    /// How often each cell of vm-pair, wire and process is measured
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Of wire only the contenders with this text in their name
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// What a benchmark found, and all that it saw.
struct Measured {
    findings: Vec<Finding>,
    details: Value,
    /// What a person is shown before the findings.
    table: Option<String>,
}

struct Benchmark {
    name: &'static str,
    about: &'static str,
    run: fn(&Arguments) -> Result<Measured>,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "vm-pair",
        about: "latency and bandwidth between two guests, beside rxe and TCP",
        run: vm_pair::run,
    },
    Benchmark {
        name: "wire",
        about: "RDMA between two hosts, clean and lossy, beside rxe and TCP over the same veth pair",
        run: wire::run,
    },
    Benchmark {
        name: "process",
        about: "RDMA between two processes, beside sockets, UCX over shared memory and plain copies",
        run: process::run,
    },
    Benchmark {
        name: "engine",
        about: "64-byte operations a second on one shard, driver and device in one process",
        run: |_| example::run(&example::ENGINE),
    },
    Benchmark {
        name: "idle",
        about: "processor time of a daemon with two idle guests",
        run: |_| idle::run(),
    },
    Benchmark {
        name: "queue-pair",
        about: "memory of an idle queue pair",
        run: |_| example::run(&example::QUEUE_PAIR),
    },
];

/// What a benchmark's file holds.
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
            println!("{:<12}{}", benchmark.name, benchmark.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(&arguments.names)?;
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

fn chosen(names: &[String]) -> Result<Vec<&'static Benchmark>> {
    let known = |name: &String| BENCHMARKS.iter().any(|benchmark| benchmark.name == name);
    let unknown = names.iter().find(|name| !known(name));
    ensure!(
        unknown.is_none(),
        "no such benchmark: {}; --list names them",
        unknown.map_or("", String::as_str)
    );
    let wanted = |benchmark: &&Benchmark| {
        names.is_empty() || names.iter().any(|name| name == benchmark.name)
    };
    Ok(BENCHMARKS.iter().filter(wanted).collect())
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

/// `bench` in cargo's target folder, two above this program.
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

    fn names(words: &[&str]) -> Result<Vec<&'static str>> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Ok(chosen(&words)?
            .iter()
            .map(|benchmark| benchmark.name)
            .collect())
    }

    #[test]
    fn names_choose_and_none_means_all() {
        assert_eq!(names(&["idle"]).unwrap(), ["idle"]);
        assert_eq!(names(&[]).unwrap().len(), BENCHMARKS.len());
        assert!(
            names(&["idle", "speed"])
                .unwrap_err()
                .to_string()
                .contains("speed")
        );
    }
}
