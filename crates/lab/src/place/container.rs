//! A container made by bubblewrap: a Debian root, its own processes, and a network namespace or this host's network.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::namespace::Entry;

/// A container to run commands in; each command gets a fresh one.
#[derive(Debug, Clone)]
pub struct Container {
    /// The host whose network it uses; `None` is this host.
    host: Option<Entry>,
    root: PathBuf,
    name: String,
    binds: Vec<(PathBuf, String)>,
    variables: Vec<(String, String)>,
}

impl Container {
    /// A container with the files of a root, in a network namespace.
    #[must_use]
    pub fn new(name: &str, host: &Entry, root: &Path) -> Self {
        Self {
            host: Some(host.clone()),
            ..Self::here(name, root)
        }
    }

    /// A container with the files of a root, in this host's network.
    #[must_use]
    pub fn here(name: &str, root: &Path) -> Self {
        Self {
            host: None,
            root: root.to_owned(),
            name: name.to_owned(),
            binds: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Shows it a file or folder of this host, writable if this user can write it.
    #[must_use]
    pub fn bind(mut self, outside: &Path, inside: &str) -> Self {
        self.binds.push((outside.to_owned(), inside.to_owned()));
        self
    }

    /// Sets a variable for its commands.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The command of this host that runs a shell's words inside.
    #[must_use]
    pub fn command(&self, words: &str) -> Command {
        let mut bwrap = Command::new("bwrap");
        bwrap.arg("--ro-bind").arg(&self.root).arg("/");
        bwrap.args(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]);
        bwrap.args(["--ro-bind", "/sys", "/sys", "--tmpfs", "/run"]);
        bwrap.args(["--unshare-pid", "--unshare-ipc"]);
        bwrap.args(["--unshare-uts", "--hostname", &self.name]);
        bwrap.args(["--die-with-parent", "--clearenv"]);
        bwrap.args(["--setenv", "PATH", "/usr/local/bin:/usr/bin:/usr/sbin"]);
        bwrap.args(["--setenv", "HOME", "/tmp", "--chdir", "/tmp"]);
        for (name, value) in &self.variables {
            bwrap.args(["--setenv", name, value]);
        }
        for (outside, inside) in &self.binds {
            bwrap.arg("--bind").arg(outside).arg(inside);
        }
        bwrap.args(["sh", "-c", words]);
        match &self.host {
            Some(host) => host.command(&bwrap),
            None => bwrap,
        }
    }
}
