//! Network namespaces that go away with their owner.
//!
//! ```text
//!   owner --Supervised--> holder (idle, inside) --keeps alive--> namespace with its links
//!                              ^
//!                nsenter --target HOLDER -- program
//! ```
//!
//! Nothing is written to /run/netns: a namespace lives as long as its holder, which ends with its owner however the
//! owner ends, and takes every link along. An ordinary user's namespaces are in one user namespace, in which they are
//! root's.

mod rerun;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, Result, bail, ensure};

use crate::guest::log_tail;
use crate::process::{Lifetime, POLL, Supervised, copied};
use crate::requirements::is_root;
pub use rerun::{carrying, enter, enter_without_network, shell, wait_for_carrier};

/// How long `unshare` may take on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The program that the holder becomes when it is inside: it follows a file that never changes, and whose path shows to
/// which namespace it belongs.
const HOLDER: &str = "tail";

/// A network namespace; dropping it ends it, unless it is to be kept.
#[derive(Debug)]
pub struct Namespace {
    holder: Supervised,
    entry: Entry,
}

/// The way into a namespace, valid as long as the namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    holder: u32,
    /// Whether it is inside a user namespace.
    user: bool,
}

impl Namespace {
    /// Makes a namespace without any link but `lo`. `name` and `run_dir` name
    /// its files.
    ///
    /// # Errors
    /// When this user may not make one.
    pub fn create(name: &str, run_dir: &Path, lifetime: Lifetime) -> Result<Self> {
        let user = !is_root();
        let mut unshare = Command::new("unshare");
        if user {
            unshare.args(["--user", "--map-root-user"]);
        }
        Self::hold(
            &holder(unshare, name, run_dir)?,
            name,
            run_dir,
            user,
            lifetime,
        )
    }

    /// Makes another namespace, to which links can be made from this one.
    ///
    /// # Errors
    /// As [`Namespace::create`].
    pub fn create_beside(&self, name: &str, run_dir: &Path, lifetime: Lifetime) -> Result<Self> {
        let command = holder(Command::new("unshare"), name, run_dir)?;
        let command = match self.entry.user {
            true => self.entry.user_only(&command),
            false => command,
        };
        Self::hold(&command, name, run_dir, self.entry.user, lifetime)
    }

    fn hold(
        command: &Command,
        name: &str,
        run_dir: &Path,
        user: bool,
        lifetime: Lifetime,
    ) -> Result<Self> {
        let log = run_dir.join(format!("{name}.namespace.log"));
        let mut holder = Supervised::spawn(command, Some(&log), lifetime)
            .context("cannot start unshare: install util-linux")?;
        let deadline = Instant::now() + START_LIMIT;
        while !is_inside(holder.id()) {
            if holder.ended()?.is_some() {
                bail!(
                    "this user may not make a network namespace:\n{}",
                    log_tail(&log)
                );
            }
            ensure!(Instant::now() < deadline, "unshare hangs");
            thread::sleep(POLL);
        }
        let entry = Entry {
            holder: holder.id(),
            user,
        };
        Ok(Self { holder, entry })
    }

    /// The way in.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The process that keeps it alive.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.holder.id()
    }
}

impl Entry {
    /// The same command inside the namespace, in the same process.
    #[must_use]
    pub fn command(&self, command: &Command) -> Command {
        let mut entered = self.nsenter();
        entered.arg("--net").arg("--").arg(command.get_program());
        copied(entered, command)
    }

    /// Runs commands of ip(8) inside, one a line.
    ///
    /// # Errors
    /// When one of them fails; those before it have been done.
    pub fn ip(&self, commands: &str) -> Result<()> {
        let mut ip = Command::new("ip");
        ip.args(["-batch", "-"]);
        let mut entered = self.command(&ip);
        let mut child = entered
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start nsenter: install util-linux")?;
        let input = child
            .stdin
            .take()
            .map(|mut input| input.write_all(commands.as_bytes()));
        let output = child.wait_with_output()?;
        ensure!(
            output.status.success(),
            "ip: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(input.unwrap_or(Ok(()))?)
    }

    /// The number by which other namespaces of this user name it in ip(8).
    #[must_use]
    pub fn id(&self) -> u32 {
        self.holder
    }

    /// The command in the user namespace but not in the network namespace.
    fn user_only(&self, command: &Command) -> Command {
        let mut entered = self.nsenter();
        entered.arg("--").arg(command.get_program());
        copied(entered, command)
    }

    fn nsenter(&self) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter.arg("--target").arg(self.holder.to_string());
        if self.user {
            nsenter.args(["--user", "--preserve-credentials"]);
        }
        nsenter
    }
}

fn holder(mut unshare: Command, name: &str, run_dir: &Path) -> io::Result<Command> {
    let followed = run_dir.join(format!("{name}.namespace"));
    fs::write(&followed, "")?;
    unshare.args(["--net", HOLDER, "--follow"]).arg(followed);
    Ok(unshare)
}

/// Whether everything is set up, which it is when the process has become the holder.
fn is_inside(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.trim() == HOLDER)
}

#[cfg(test)]
mod tests;
