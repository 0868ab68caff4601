//! Packages that the host must have installed, and installing them.

use std::env;
use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// A file that shows that a package is there.
struct Requirement {
    package: &'static str,
    /// A program found in a folder of programs, or an absolute path.
    shown_by: &'static str,
    /// Whether only ordinary users need it: root makes the image's root without a user namespace.
    only_for_users: bool,
}

const fn requirement(package: &'static str, shown_by: &'static str) -> Requirement {
    Requirement {
        package,
        shown_by,
        only_for_users: false,
    }
}

const REQUIREMENTS: &[Requirement] = &[
    requirement("mmdebstrap", "mmdebstrap"),
    requirement("debian-archive-keyring", KEYRING),
    requirement("tar", "tar"),
    requirement("util-linux", "taskset"),
    requirement("iproute2", "ip"),
    Requirement {
        package: "uidmap",
        shown_by: "newuidmap",
        only_for_users: true,
    },
];

/// The keys that verify Debian's archives.
pub const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Folders of programs beyond an ordinary user's PATH.
const SYSTEM_FOLDERS: &[&str] = &["/usr/sbin", "/sbin"];

/// Installs with apt whatever is missing, asking for the password that sudo wants. Does and asks nothing when all is
/// there.
///
/// # Errors
/// When apt fails or the user may not use a user namespace's identities.
pub fn ensure() -> Result<()> {
    let missing = missing();
    if !missing.is_empty() {
        install(&missing)?;
    }
    if !is_root() {
        ensure_identities()?;
    }
    Ok(())
}

/// Packages to install, in the table's order.
#[must_use]
pub fn missing() -> Vec<&'static str> {
    let applicable = REQUIREMENTS
        .iter()
        .filter(|item| !item.only_for_users || !is_root());
    applicable
        .filter(|item| !is_present(item.shown_by))
        .map(|item| item.package)
        .collect()
}

fn is_present(shown_by: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = SYSTEM_FOLDERS
        .iter()
        .map(|folder| Path::new(folder).to_path_buf());
    Path::new(shown_by).is_absolute() && Path::new(shown_by).exists()
        || env::split_paths(&path)
            .chain(system)
            .any(|folder| folder.join(shown_by).is_file())
}

fn install(packages: &[&str]) -> Result<()> {
    eprintln!("installing {} (this host lacks them)", packages.join(" "));
    // The usual first failure is a list of packages that is too old to fetch from.
    if apt(&["install"], packages).is_ok() {
        return Ok(());
    }
    apt(&["update", "-q"], &[])?;
    apt(&["install"], packages)
}

fn apt(verb: &[&str], packages: &[&str]) -> Result<()> {
    let mut command = as_root("apt-get");
    command.args(verb).args(["-y", "-q"]);
    if !packages.is_empty() {
        command.arg("--no-install-recommends").args(packages);
    }
    command.env("DEBIAN_FRONTEND", "noninteractive");
    let status = command
        .status()
        .context("cannot start apt-get: is this a Debian or Ubuntu machine?")?;
    ensure!(
        status.success(),
        "apt-get {} {} failed",
        verb.join(" "),
        packages.join(" ")
    );
    Ok(())
}

fn as_root(program: &str) -> Command {
    if is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    if !stderr().is_terminal() {
        command.arg("--non-interactive");
    }
    command.arg(program);
    command
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Checks that an ordinary user has the range of identities that mmdebstrap needs for its user namespace; useradd
/// grants them by default.
fn ensure_identities() -> Result<()> {
    let user = env::var("USER")
        .or_else(|_| env::var("LOGNAME"))
        .unwrap_or_default();
    let number = rustix::process::geteuid().as_raw().to_string();
    let granted = fs::read_to_string("/etc/subuid").unwrap_or_default();
    let owners: Vec<&str> = granted
        .lines()
        .filter_map(|line| line.split(':').next())
        .collect();
    if owners.iter().any(|&owner| owner == user || owner == number) {
        return Ok(());
    }
    bail!(
        "user {user} has no subordinate identities: run sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
    )
}
