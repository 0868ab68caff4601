//! A program in the migrating guest, which holds many memory regions and does nothing.

use std::fs;

use anyhow::{Context, Result, ensure};
use vrdma_lab::guest::Guest;

use crate::compiled::compiled;
use crate::guests::with_device;

const PROGRAM: &str = "/tmp/regions";

/// How long registering them may take, in tenths of a second.
const PATIENCE: u32 = 600;

/// Starts the program, and waits until it has registered them.
pub(super) fn hold(guest: &Guest, count: u32) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compiled(folder.path(), "regions", include_str!("regions.c"))?;
    guest.put(PROGRAM, "755", &fs::read(program)?)?;
    let said = format!("{PROGRAM}.out");
    let start = format!("setsid {PROGRAM} $DEV {count} < /dev/null > {said} 2>&1 &");
    guest.check(&with_device(&start))?;
    let look = format!(
        "for i in $(seq {PATIENCE}); do [ -s {said} ] && break; sleep 0.1; done; cat {said}"
    );
    let told = guest.check(&look).context("no guest")?;
    ensure!(told.trim() == "held", "the guest's regions: {told}");
    Ok(())
}
