//! `cargo xtask lab`: the lab's image, and guests made from it.

mod guest;
mod migrate;
mod nested;
mod pair;
mod shell;
mod snapshot;
mod survive;
mod wire;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
pub(crate) use pair::{built, daemon};
use vrdma_lab::image::{Accelerator, Image};
pub(crate) use wire::WireArguments;

#[derive(Subcommand)]
pub(crate) enum Lab {
    /// Build the guests' image, unless the cache has it
    Image,
    /// Run a server in one guest and its client in another
    Pair(pair::Arguments),
    /// Run a command or a shell in a guest of the kept pair
    Shell(shell::Arguments),
    /// End the kept pair
    Stop,
    /// Kill the daemon's worker repeatedly under programs, which must only notice a pause
    ///
    /// Exit status 0 only if every program ends with status 0 on both sides. Prints how long it took until the next
    /// worker served, and the longest round trip that ib_send_lat saw. The longest form has a row each for programs
    /// that connect by rdma_cm, an MPI program that checks its results, and 64 programs at once.
    Survive(survive::Arguments),
    /// Migrate a guest between two hosts, there and back, while its connections are in use
    ///
    /// Exit status 0 only if every program ends with status 0 on both sides. Prints how long each migration took.
    Migrate(migrate::Arguments),
    /// Save two guests while a program of theirs sends, and restore them to that moment, together and one alone
    ///
    /// Exit status 0 only if the program ends with success each time that both are restored, with an error where one is
    /// restored alone, and a new program then succeeds.
    Snapshot,
    /// Boot a single guest against a device that is already being served
    Guest(guest::Arguments),
    /// Run a cell of the studies in a guest that lends virtual functions to guests of its own
    ///
    /// The guest has an IOMMU and an igb card, both emulated by QEMU, and does what `vrdma study run` does on a machine
    /// with such hardware: it makes virtual functions, binds them to vfio-pci, boots two guests with one each,
    /// measures, and undoes everything. It needs 4 GiB of memory. Without KVM it takes five minutes on two cores that
    /// others use too, besides compiling; its figures show that this works, and say nothing about hardware. It is not
    /// part of make test.
    Nested(nested::Arguments),
}

impl Lab {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Image => image(),
            Self::Pair(arguments) => pair::run(&arguments),
            Self::Shell(arguments) => shell::run(&arguments),
            Self::Stop => shell::stop(),
            Self::Survive(arguments) => survive::run(&arguments),
            Self::Migrate(arguments) => migrate::run(&arguments),
            Self::Snapshot => snapshot::run(),
            Self::Guest(arguments) => guest::run(&arguments),
            Self::Nested(arguments) => nested::run(&arguments),
        }
    }
}

fn image() -> Result<ExitCode> {
    let image = Image::ensure()?;
    println!("{}", image.folder().display());
    println!("guests run under {}", Accelerator::choose(&image)?);
    Ok(ExitCode::SUCCESS)
}

/// Converts a guest command's status to this program's.
fn exit_code(status: i32) -> ExitCode {
    u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
}
