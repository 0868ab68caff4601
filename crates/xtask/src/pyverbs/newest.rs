//! The newest tests that Debian has, in a container with its unstable release, over the library and a daemon of
//! this host.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use vrdma_lab::image::{Contents, Release, Root};
use vrdma_lab::place::Container;

use super::SCRIPT;
use super::host::{LIMIT, unpack};
use crate::process_host::ProcessHost;

/// The packages of the tests and of what they need.
const PACKAGES: [&str; 2] = ["rdma-core", "python3-pyverbs"];

/// Programs in place of iproute2's, which the tests ask for the network interface of a device, and for the interface's
/// addresses. The kernel knows neither for our device, so these answer with the adapter of [`ProcessHost`].
const PROGRAMS: [(&str, &str); 2] = [
    (
        "rdma",
        r#"[{"ifname": "vrdma0", "port": 1, "netdev": "vrdma0"}]"#,
    ),
    (
        "ip",
        r#"[{"address": "52:54:00:00:00:01", "addr_info": [{"local": "10.0.0.1"}]}]"#,
    ),
];

/// Runs the tests that match and returns the report.
pub(super) fn run(release: bool, only: &[String]) -> Result<String> {
    let root = Root::ensure(&Contents {
        name: "rdma-core".to_owned(),
        release: Release::Unstable,
        packages: PACKAGES.map(str::to_owned).to_vec(),
    })?;
    eprintln!("rdma-core {}", root.version("rdma-core")?);
    let library = crate::library::link(release)?;
    let folder = TempDir::with_prefix("vrdma-pyverbs-")?;
    unpack(&root.path(), folder.path())?;
    std::fs::write(folder.path().join("run.py"), SCRIPT)?;
    for (name, answer) in PROGRAMS {
        let script = format!("#!/bin/sh\necho '{answer}'\n");
        write_program(&folder.path().join(name), &script)?;
    }
    let daemon = ProcessHost::start(release, folder.path())?;
    let container = container(&root, &daemon, &library, folder.path())?;
    let patterns: String = only.iter().map(|pattern| format!(" '{pattern}'")).collect();
    let inside = folder.path().display();
    let words = format!(
        "PATH={inside}:$PATH exec python3 {inside}/run.py {inside} {inside}/report {LIMIT}{patterns}"
    );
    let mut python = container.command(&words);
    let status = python.stdin(Stdio::null()).status();
    let status = status.context("running bwrap")?;
    ensure!(
        status.success(),
        "the tests ended with {status}:\n{}",
        daemon.log()
    );
    Ok(std::fs::read_to_string(folder.path().join("report"))?)
}

fn write_program(path: &Path, script: &str) -> Result<()> {
    std::fs::write(path, script)?;
    let all_may_run = Permissions::from_mode(0o755);
    Ok(std::fs::set_permissions(path, all_may_run)?)
}

/// The container. Folders have the same names inside.
fn container(
    root: &Root,
    daemon: &ProcessHost,
    library: &Path,
    folder: &Path,
) -> Result<Container> {
    let libraries = library.parent().context("the library has no folder")?;
    let mut container = Container::here("pyverbs", &root.path());
    for path in [libraries, folder] {
        let inside = path.to_str().context("a path is not UTF-8")?;
        container = container.bind(path, inside);
    }
    let variables = [
        ("LD_PRELOAD", library),
        ("LD_LIBRARY_PATH", libraries),
        ("VRDMA_SOCKET", &daemon.socket()),
    ];
    for (name, path) in variables {
        container = container.variable(name, &path.display().to_string());
    }
    Ok(container)
}
