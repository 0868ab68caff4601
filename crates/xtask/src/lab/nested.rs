//! `lab nested`: a cell of the studies in a guest whose card has virtual functions, which it lends to its own guests.
//!
//! ```text
//!   host --QEMU--> outer guest: IOMMU, igb --vrdma study run--> guest a, function 0 <--igb--> function 1, guest b
//! ```
//!
//! Without KVM the outer guest's processor is an emulated AMD one, whose virtualisation QEMU emulates too, so that the
//! inner guests run under KVM and their code is translated only once: with nested translation they showed no sign of
//! life within five minutes.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use vrdma_lab::guest::{Ethernet, Guest, GuestConfig, Kind};
use vrdma_lab::image::{Accelerator, Image};
use vrdma_lab::linked::{Profile, link};
use vrdma_lab::process::Lifetime;
use vrdma_lab::steps::Steps;
use vrdma_study::key::CellKey;
use vrdma_study::record::{CellRecord, Results};

use super::shell::follow;

/// Makes the outer guest a host and runs the cell there.
const SCRIPT: &str = include_str!("nested.sh");

/// Memory for two inner guests, their QEMUs, and what the outer guest writes.
const MEMORY_MIB: u32 = 4096;

/// One processor for each inner guest.
const PROCESSORS: u32 = 2;

/// The file in which the outer guest leaves the results.
const RESULTS: &str = "/root/study/results.json";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Cell of a study that lends network functions to guests
    #[arg(default_value = "s4/write-lat/C")]
    cell: CellKey,
    /// Keep its results in this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let image = Image::ensure()?;
    let steps = Steps::default();
    let step = steps.start("vrdma-study for guests");
    let program = link("vrdma-study", "vrdma-study", Profile::Dev, &[])?;
    step.done();
    let folder = tempfile::tempdir()?;
    let step = steps.start("boot a guest with an IOMMU and virtual functions");
    let outer = boot(&image, folder.path())?;
    outer.put("/root/vrdma-study", "755", &fs::read(&program)?)?;
    outer.put("/root/nested", "755", SCRIPT.as_bytes())?;
    step.done();
    let command = format!("/root/nested {} {}", key(&image)?, arguments.cell);
    let status = follow(&outer.spawn(&format!("{command} 2>&1"))?)?;
    ensure!(
        status == ExitCode::SUCCESS,
        "the study did not run in the guest; its console ends with:\n{}",
        outer.console_tail()
    );
    let kept = folder.path().join("results.json");
    fs::write(&kept, outer.check(&format!("cat {RESULTS}"))?)?;
    if let Some(out) = &arguments.out {
        fs::copy(&kept, out).with_context(|| format!("cannot write {}", out.display()))?;
    }
    let results = Results::read(&kept)?;
    told(results.cell(&arguments.cell))?;
    Ok(ExitCode::SUCCESS)
}

fn boot(image: &Image, folder: &Path) -> Result<Guest> {
    let config = GuestConfig {
        name: "outer".to_owned(),
        kind: Kind::Tcp,
        address: Ipv4Addr::new(10, 10, 1, 1),
        mac: "52:54:00:00:00:01".to_owned(),
        memory_mib: MEMORY_MIB,
        processors: PROCESSORS,
        ethernet: Ethernet::Functions,
        vfio_user: None,
        second: None,
        host: None,
        verbs: None,
        mtu: None,
        host_cpus: None,
        run_dir: folder.to_owned(),
        variables: Vec::new(),
        lifetime: Lifetime::Owned,
        incoming: false,
        libvirt: false,
    };
    let guest = Guest::start(image, Accelerator::choose(image)?, &config)?;
    guest.wait_ready()?;
    Ok(guest)
}

/// The image's key, by which the outer guest recognises its own disk as the image.
fn key(image: &Image) -> Result<&str> {
    let name = image.folder().file_name().and_then(|name| name.to_str());
    name.context("the image's folder has no name")
}

/// Prints the figures, or fails with the reason why there are none.
fn told(cell: Option<&CellRecord>) -> Result<()> {
    let cell = cell.context("the study knows nothing of the cell")?;
    if cell.figures.is_empty() {
        let reason = cell.reason.as_deref().unwrap_or("it was not measured");
        bail!("{}: {reason}", cell.key);
    }
    for (size, samples) in &cell.figures {
        println!(
            "{} {size}: {} {} (median of {})",
            cell.key,
            samples.median,
            cell.unit.text(),
            samples.values.len()
        );
    }
    Ok(())
}
