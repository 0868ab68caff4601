//! The cost of registering memory: in processes, with their memory moved or not, and in guests, compared with rxe.
//!
//! ```text
//!   two guests with our adapters ── two guests with rxe ── a process, its memory moved ── one whose memory stays
//!     each: new memory of 4 KiB, 1 MiB and 1 GiB, touched, registered, deregistered
//! ```
//! Guests are compared with guests: figures on emulated processors cannot be compared with those of a process.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use vrdma_lab::daemon::Daemon;
use vrdma_lab::guest::Kind;
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};
use vrdma_lab::process::Lifetime;
use vrdma_lab::steps::Steps;

use super::finding::Finding;
use super::process::{Told, table};
use super::two_programs::Ground;
use super::{Arguments, Measured};
use crate::compiled::compiled;
use crate::guests::with_device;
use crate::programs::preload;

struct Size {
    registered: &'static str,
    deregistered: &'static str,
    bytes: u64,
    /// Repetitions in one run, which reports the median.
    times: u32,
}

const SIZES: [Size; 3] = [
    Size {
        registered: "register 4 KiB",
        deregistered: "deregister 4 KiB",
        bytes: 4 << 10,
        times: 201,
    },
    Size {
        registered: "register 1 MiB",
        deregistered: "deregister 1 MiB",
        bytes: 1 << 20,
        times: 51,
    },
    Size {
        registered: "register 1 GiB",
        deregistered: "deregister 1 GiB",
        bytes: 1 << 30,
        times: 3,
    },
];

/// Room for the longest region and for Linux.
const GUEST_MIB: u32 = 2048;

const GUESTS: [(&str, Kind); 2] = [("VM", Kind::Vrdma), ("VM, rxe", Kind::Rxe)];

const PROCESSES: [(&str, &str); 2] = [
    ("process, memory moved", ""),
    ("process, --no-adopt", "VRDMA_ADOPT=0"),
];

/// The only device of our library.
const DEVICE: &str = "vrdma0";

/// The program's path in a guest.
const IN_GUEST: &str = "/tmp/registration";

pub(super) fn run(arguments: &Arguments) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    let program = compiled(
        folder.path(),
        "registration",
        include_str!("registration.c"),
    )?;
    let steps = Steps::default();
    let mut told = Vec::new();
    for (name, kind) in GUESTS {
        let step = steps.start(name);
        in_guest(name, kind, &program, arguments.repetitions, &mut told)?;
        step.done();
    }
    let step = steps.start("processes");
    in_processes(&program, arguments.repetitions, &mut told)?;
    step.done();
    let lines = table::lines(&told);
    let findings = SIZES.iter().filter_map(|size| {
        let of = |name: &str| {
            let mut lines = lines.iter();
            let line = lines.find(|line| line.cell == size.registered && line.name == name)?;
            Some(line.typical.median)
        };
        let [ours, rxe] = GUESTS.map(|(name, _)| of(name));
        let what = format!("{} in a VM, beside rxe", size.registered);
        Some(Finding::new(what, ours? / rxe?, "times as long", None))
    });
    Ok(Measured {
        findings: findings.collect(),
        details: json!({ "lines": lines, "runs": told }),
        table: Some(table::render(&lines).to_string()),
    })
}

fn in_guest(
    name: &str,
    kind: Kind,
    program: &Path,
    repetitions: u32,
    told: &mut Vec<Told>,
) -> Result<()> {
    let pair = Pair::start(&PairConfig {
        kinds: [kind; 2],
        memory_mib: GUEST_MIB,
        ..PairConfig::new(Network::Daemon(crate::lab::daemon(true)?))
    })?;
    let guest = pair.guest(Side::A);
    guest.put(IN_GUEST, "755", &fs::read(program)?)?;
    for size in (0..repetitions).flat_map(|_| &SIZES) {
        let Size { bytes, times, .. } = size;
        let command = format!("{IN_GUEST} $DEV {bytes} {times}");
        let text = guest.check(&with_device(&command))?;
        told.extend(parsed(name, size, &text)?);
    }
    Ok(())
}

fn in_processes(program: &Path, repetitions: u32, told: &mut Vec<Told>) -> Result<()> {
    let ground = Ground::make()?;
    let run_dir = ground.folder.path().join("run");
    fs::create_dir(&run_dir)?;
    let adapters = Ground::adapters();
    let _daemon = Daemon::start(&ground.daemon, &run_dir, &adapters, None, Lifetime::Owned)?;
    let host = ground.wire.host(Side::A);
    let preload = preload(host, Side::A, &run_dir, &ground.library);
    for size in (0..repetitions).flat_map(|_| &SIZES) {
        for (name, variables) in PROCESSES {
            let Size { bytes, times, .. } = size;
            let program = program.display();
            let words = format!("{variables} exec {program} {DEVICE} {bytes} {times}");
            let mut shell = Command::new("sh");
            shell.args(["-c", &words]);
            let output = preload.command(&shell).output();
            let output = output.context("cannot start sh")?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{name}: {said}");
            told.extend(parsed(
                name,
                size,
                &String::from_utf8_lossy(&output.stdout),
            )?);
        }
    }
    Ok(())
}

/// Parses what the program printed.
fn parsed(name: &str, size: &Size, text: &str) -> Result<Vec<Told>> {
    let cells = [size.registered, size.deregistered].into_iter();
    let told = cells.zip(text.split_whitespace()).map(|(cell, word)| {
        let typical = word.parse();
        anyhow::Ok(Told {
            cell: cell.to_owned(),
            name: name.to_owned(),
            unit: "us".to_owned(),
            typical: typical.with_context(|| format!("no figure in: {text}"))?,
            p99: None,
            p999: None,
        })
    });
    let told = told.collect::<Result<Vec<_>>>()?;
    ensure!(told.len() == 2, "{name} printed no figures: {text}");
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_tells_of_both_halves() {
        let told = parsed("VM", &SIZES[0], "12.50 3.25\n").unwrap();
        let cells: Vec<_> = told.iter().map(|it| (&*it.cell, it.typical)).collect();
        assert_eq!(
            cells,
            [("register 4 KiB", 12.5), ("deregister 4 KiB", 3.25)]
        );
        assert!(parsed("VM", &SIZES[0], "12.50").is_err());
        assert!(parsed("VM", &SIZES[0], "a b").is_err());
    }
}
