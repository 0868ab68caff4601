//! The daemon and its environment.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use vrdma_api::Status;

use super::Check;
use crate::failure::Failure;

/// Descriptors of one adapter with a guest: two listeners, two connections, doorbell memory, three interrupts, and the
/// guest's memory, which firmware splits into some ten pieces.
const DESCRIPTORS_PER_ADAPTER: u64 = 24;

/// Descriptors of the daemon itself, with clients of the control API.
const DESCRIPTORS_OF_DAEMON: u64 = 64;

pub(super) fn daemon(socket: &Path, status: &Result<Status, Failure>) -> Check {
    match status {
        Ok(status) => Check::ok(
            "daemon",
            format!("vrdmad {} answers at {}", status.version, socket.display()),
        ),
        Err(failure) => Check::fail("daemon", failure.to_string()),
    }
}

pub(super) fn run_dir(path: &Path) -> Check {
    judge_run_dir(path, fs::metadata(path).map(|metadata| metadata.mode()))
}

pub(super) fn judge_run_dir(path: &Path, mode: io::Result<u32>) -> Check {
    let shown = path.display();
    match mode {
        Err(error) => Check::fail(
            "run folder",
            format!("cannot look at {shown}: {error}; restart vrdmad to make it again"),
        ),
        Ok(mode) if mode & 0o002 != 0 => Check::fail(
            "run folder",
            format!("anybody can put sockets into {shown}; run `chmod o-w {shown}`"),
        ),
        Ok(mode) => Check::ok("run folder", format!("{shown} has mode {:o}", mode & 0o777)),
    }
}

/// Checks the daemon's own limit, which is what counts, not this shell's.
pub(super) fn descriptors(status: &Status) -> Check {
    let limits = fs::read_to_string(format!("/proc/{}/limits", status.pid));
    let limit = limits.ok().and_then(|text| open_files(&text));
    judge_descriptors(limit, status.adapters.len() as u64)
}

/// Returns the soft limit in `/proc/PID/limits`.
pub(super) fn open_files(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

pub(super) fn judge_descriptors(limit: Option<u64>, adapters: u64) -> Check {
    let wanted = DESCRIPTORS_OF_DAEMON + DESCRIPTORS_PER_ADAPTER * adapters;
    match limit {
        None => Check::warn(
            "open files",
            "cannot read vrdmad's limits; run doctor as its user",
        ),
        Some(limit) if limit < wanted => Check::fail(
            "open files",
            format!(
                "vrdmad may open {limit} files and {adapters} adapters need up to {wanted}; raise `ulimit -n`, or LimitNOFILE= in its unit, and restart it"
            ),
        ),
        Some(limit) => Check::ok(
            "open files",
            format!("vrdmad may open {limit}, its adapters need up to {wanted}"),
        ),
    }
}

/// Reports data path threads that make no turns.
pub(super) fn stuck(status: &Status) -> Vec<Check> {
    let shards = status.shards.iter().enumerate();
    let shards =
        shards.filter_map(|(number, shard)| Some((format!("shard {number}"), shard.silent_ms?)));
    let ethernet = status.ethernet_silent_ms;
    let ethernet = ethernet.map(|ms| ("Ethernet thread".to_owned(), ms));
    let all = shards.chain(ethernet).map(|(name, ms)| {
        let silent = crate::status::silent(ms);
        Check::fail(
            &name,
            format!("{silent}; see the log of vrdmad, and restart it if it stays so"),
        )
    });
    all.collect()
}

/// Reports what the daemon has given up, by its own account.
pub(super) fn protections(status: &Status) -> Vec<Check> {
    let checks = status.protections.iter().map(|protection| {
        let name = format!("sandbox, {}", protection.name);
        match protection.in_force {
            true => Check::ok(&name, &protection.detail),
            false => Check::warn(&name, format!("not in force: {}", protection.detail)),
        }
    });
    checks.collect()
}

/// Reports what the daemon finds wrong with the connected guests.
pub(super) fn faults(status: &Status) -> Vec<Check> {
    let faults = status.stats.iter().filter_map(|stats| {
        let fault = stats.rdma.fault.as_ref()?;
        Some(Check::fail(&format!("adapter {}", stats.name), fault))
    });
    faults.collect()
}
