//! `cargo xtask sanitize`: tests of the daemon with a sanitizer built in, the standard library included.
//!
//! Clients and shards of these tests are threads of one process, and so are both ends of the rings. But each maps the
//! rings on its own, and a sanitizer identifies memory by its address. So it finds races within the daemon and within a
//! client. What the two sides share is tested with loom.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::{fuzz, nightly};

/// What the sanitizer looks for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sanitizer {
    /// Accesses out of bounds, to freed memory, and the like (AddressSanitizer)
    Address,
    /// Races of threads (ThreadSanitizer)
    Thread,
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    /// Parts of the names of tests that are not run, and the reasons.
    fn left_out(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Address => &[],
            Self::Thread => &[
                (
                    "rule_p27_",
                    "it maps memory where ThreadSanitizer has its own",
                ),
                (
                    "limits_of_who_receives_and_of_messages",
                    "ThreadSanitizer makes messages slower than their limit",
                ),
            ],
        }
    }

    /// The variable and value of the sanitizer's options. Leaks are not looked for: ptrace would stop tests for that.
    /// Memory faults have handlers of their own.
    fn options(self) -> (&'static str, &'static str) {
        match self {
            Self::Address => (
                "ASAN_OPTIONS",
                "detect_leaks=0:handle_segv=0:handle_sigbus=0:allow_user_segv_handler=1",
            ),
            Self::Thread => (
                "TSAN_OPTIONS",
                "handle_segv=0:handle_sigbus=0:halt_on_error=1:second_deadlock_stack=1",
            ),
        }
    }
}

/// A sanitizer learns of mappings by calls of libc. It does not see those that `rustix` makes directly, and would
/// confuse memory that is mapped where other memory was before.
const CALLS_BY_LIBC: &str = "--cfg rustix_use_libc";

/// Options of `cargo xtask sanitize`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// What to look for
    sanitizer: Sanitizer,
    /// Tests of the daemon [default: process]
    #[arg(long = "test", value_name = "NAME", default_value = "process")]
    tests: Vec<String>,
    /// Only tests with this in their name
    filter: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    nightly::ensure(&["rust-src"])?;
    let status = command(arguments)?.status().context("cannot start cargo")?;
    ensure!(status.success(), "the tests or the sanitizer failed");
    for (what, why) in arguments.sanitizer.left_out() {
        println!("{what} is left out: {why}");
    }
    Ok(ExitCode::SUCCESS)
}

fn command(arguments: &Arguments) -> Result<Command> {
    let name = arguments.sanitizer.name();
    let (variable, options) = arguments.sanitizer.options();
    let left_out = arguments.sanitizer.left_out();
    let mut cargo = nightly::cargo();
    cargo
        .args(["test", "--package", "vrdma-daemon", "-Zbuild-std"])
        .args(arguments.tests.iter().flat_map(|test| ["--test", test]))
        .args(["--target", &fuzz::triple()?, "--target-dir"])
        .arg(crate::library::target_folder()?.join(format!("sanitize-{name}")))
        .args(arguments.filter.as_deref())
        .arg("--")
        .args(left_out.iter().flat_map(|(what, _)| ["--skip", what]))
        .env("RUSTFLAGS", format!("-Zsanitizer={name} {CALLS_BY_LIBC}"))
        .env(variable, options);
    Ok(cargo)
}
