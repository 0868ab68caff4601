//! `cargo xtask miri`: unit tests of the rooms between programs, guests and memory, run by Miri, which detects accesses
//! that are out of bounds, misaligned, to freed memory, or races.
//!
//! Shared mappings are replaced by a stand-in under Miri (`memory/src/kernel`). Tests of what the kernel does are left
//! out, each with its reason below.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::nightly;

struct Room {
    name: &'static str,
    /// `--lib`, or a test file.
    tests: &'static [&'static str],
    left_out: &'static [LeftOut],
}

/// A part of tests' names, and the reason why they are not run.
type LeftOut = (&'static str, &'static str);

const ADDRESSES: &str = "memory by /proc/PID/mem and process_vm_*, which Miri does not have";
const SOCKETS: &str = "sockets with packets, descriptors or options, which Miri does not have";
const CLOCK: &str = "what is late by the clock, which goes on while Miri takes its time";
const LONG: &str = "lists of hundreds of thousands of pages, which take Miri very long";
const TURNS: &str = "hundreds of thousands of turns without unsafe code, which take Miri very long";
const MODEL: &str = "all states of a model, without unsafe code, which take Miri very long";
const DIGESTS: &str =
    "thousands of digests of thousands of bytes, without unsafe code, which take Miri very long";
const PROGRAMS: &str = "another program, which Miri does not start";
const RIGHTS: &str = "what the kernel refuses: the stand-in refuses nothing";

const ROOMS: &[Room] = &[
    Room {
        name: "memory",
        tests: &["--lib", "--test=model"],
        left_out: &[
            ("client::", ADDRESSES),
            ("partly::", ADDRESSES),
            ("closing::", SOCKETS),
            ("a_mark_stays_as_long_as_its_process", PROGRAMS),
            ("tenant::", CLOCK),
            ("a_directory_of_three_tables_is_walked", LONG),
            ("a_long_list_is_read_in_pieces", LONG),
            ("the_size_cannot_be_changed", RIGHTS),
            ("a_file_that_may_not_be_written_is_refused", RIGHTS),
            ("a_thing_without_memory_is_refused", RIGHTS),
        ],
    },
    Room {
        name: "provider",
        tests: &["--lib"],
        left_out: &[
            ("calls_are_answered_or_refused", SOCKETS),
            ("a_first_request_of_another_version", SOCKETS),
            ("what_could_shrink_or_is_short_is_not_mapped", RIGHTS),
        ],
    },
    Room {
        name: "pvrdma",
        tests: &["--lib"],
        left_out: &[("arming::model::", MODEL), ("context::", DIGESTS)],
    },
    Room {
        name: "adapter",
        tests: &["--lib", "--test=machine"],
        left_out: &[("fair::", TURNS)],
    },
];

/// Permits files and clocks of this machine, which the stand-in and threads need, and allocations that last as long as
/// the process.
const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-ignore-leaks";

/// Cases of each property: few, since Miri is some hundred times slower than the machine.
const CASES: &str = "4";

/// Options of `cargo xtask miri`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only this room, or one of several
    #[arg(long = "room", value_name = "NAME", value_parser = names())]
    rooms: Vec<String>,
    /// Only tests with this in their name
    filter: Option<String>,
}

fn names() -> Vec<&'static str> {
    ROOMS.iter().map(|room| room.name).collect()
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    nightly::ensure(&["miri", "rust-src"])?;
    let is_meant = |room: &&Room| {
        arguments.rooms.is_empty() || arguments.rooms.iter().any(|name| name == room.name)
    };
    for room in ROOMS.iter().filter(is_meant) {
        let mut command = command(room, arguments.filter.as_deref())?;
        let status = command.status().context("cannot start cargo")?;
        ensure!(status.success(), "Miri found something in {}", room.name);
    }
    for room in ROOMS.iter().filter(is_meant) {
        for (what, why) in room.left_out {
            println!("{}: {what} is left out: {why}", room.name);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn command(room: &Room, filter: Option<&str>) -> Result<Command> {
    let mut cargo = nightly::cargo();
    cargo
        .args(["miri", "test", "--package", &format!("vrdma-{}", room.name)])
        .args(room.tests)
        .arg("--target-dir")
        .arg(crate::library::target_folder()?.join("miri"))
        .args(filter)
        .arg("--")
        .args(room.left_out.iter().flat_map(|(what, _)| ["--skip", what]))
        .env("MIRIFLAGS", FLAGS)
        .env("PROPTEST_CASES", CASES)
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    Ok(cargo)
}
