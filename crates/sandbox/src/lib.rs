//! What the daemon gives up, so that a fault in it does not endanger the whole host.
//!
//! | given up | when | unless |
//! |---|---|---|
//! | core dumps and debuggers: guests' memory, keys | at the start | `--core-dumps` |
//! | capabilities; a helper opens interfaces ([`interfaces`]) | at the start | `sandbox = false` |
//! | more rights by what it starts (`no_new_privs`) | at the start | `sandbox = false` |
//! | system calls that nobody needs: programs, users, mounts, debuggers ([`syscalls`]) | at the start | `sandbox = false` |
//! | all but some system calls, in threads of the data path | when they start | `sandbox = false` |
//! | writing files, in the Ethernet thread and the control plane ([`paths`]) | when the threads run | `sandbox = false` |
//!
//! What the kernel does not offer is logged once, and the daemon goes on: `vrdma doctor` shows what is in force.

#![forbid(unsafe_code)]

mod capabilities;
pub mod interfaces;
mod limits;
mod paths;
mod syscalls;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use rustix::thread::set_no_new_privs;
use vrdma_api::Protection;

use interfaces::{Helper, Interfaces};

/// What the user wants the daemon to give up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// `sandbox` of the configuration.
    pub is_on: bool,
    /// Whether core dumps stay on, although they have the memory of guests and programs.
    pub keeps_core_dumps: bool,
}

/// The rights that threads of the data path give up when they start.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    is_on: bool,
    /// Folders of sockets that come and go with adapters.
    folders: Arc<[PathBuf]>,
}

impl Confinement {
    /// Makes a confinement that leaves these folders.
    pub fn new(folders: impl Into<Arc<[PathBuf]>>) -> Self {
        Self {
            is_on: true,
            folders: folders.into(),
        }
    }

    /// Confines a shard, which has to reach other processes' memory.
    pub fn shard(&self) {
        self.confine(syscalls::confine_data_path);
    }

    /// Confines the Ethernet thread, which does not reach other processes' memory.
    pub fn ethernet(&self) {
        self.confine(|| paths::confine(&self.folders));
        self.confine(syscalls::confine_data_path);
    }

    /// Gives something up. The control plane has already logged what this host does not offer.
    fn confine(&self, give_up: impl FnOnce() -> io::Result<()>) {
        if self.is_on
            && let Err(error) = give_up()
        {
            tracing::debug!("sandbox: {error}");
        }
    }
}

impl Options {
    /// Returns the confinement for threads of the data path.
    pub fn confinement(self, folders: Vec<PathBuf>) -> Confinement {
        Confinement {
            is_on: self.is_on,
            folders: folders.into(),
        }
    }

    /// Gives up writing files in the control plane, once the threads that must not do so are running.
    pub fn close_files(self, confinement: &Confinement) -> Protection {
        self.protect(
            "files",
            "the control plane and the Ethernet thread write none, and run none",
            || paths::confine(&confinement.folders),
        )
    }

    /// Runs `give_up` if the sandbox is on, and logs once if the kernel does not offer it.
    fn protect(
        self,
        name: &str,
        gain: &str,
        give_up: impl FnOnce() -> io::Result<()>,
    ) -> Protection {
        if !self.is_on {
            return protection(name, Err("sandbox = false in the configuration".to_owned()));
        }
        protection(name, refused(name, give_up()).map(|()| gain.to_owned()))
    }
}

/// Gives up what only the first thread of a process can give up, before there are others.
pub fn enter(options: Options) -> (Vec<Protection>, Interfaces) {
    // Comes before new privileges are given up, since a file's capabilities are new privileges.
    let (interfaces, rights) = give_up_rights(options);
    let protections = vec![
        limits::core_dumps(options.keeps_core_dumps),
        rights,
        options.protect(
            "new privileges",
            "nothing that vrdmad starts has more rights than it",
            || Ok(set_no_new_privs(true)?),
        ),
        options.protect(
            "system calls",
            "no programs, other users, mounts, debuggers",
            syscalls::confine_process,
        ),
        options.protect(
            "data path",
            "its threads have only the system calls that they need",
            try_data_path,
        ),
    ];
    (protections, interfaces)
}

/// Tries whether this host lets threads of the data path give up what they do not need.
fn try_data_path() -> io::Result<()> {
    let tried = thread::Builder::new().spawn(syscalls::confine_data_path)?;
    let tried = tried.join();
    tried.unwrap_or_else(|_| Err(io::Error::other("the attempt panicked")))
}

/// Gives up capabilities, once a helper with those for the network is running.
fn give_up_rights(options: Options) -> (Interfaces, Protection) {
    let mut interfaces = Interfaces::default();
    let given_up = options.protect(
        "capabilities",
        "vrdmad has none, or only CAP_SYS_PTRACE if it is root",
        || {
            if capabilities::has_network()? {
                interfaces = Helper::start()?.into();
            }
            capabilities::keep(capabilities::of_daemon())
        },
    );
    (interfaces, given_up)
}

/// Whether this process may open packet sockets itself.
pub fn has_raw_right() -> bool {
    capabilities::has_raw().unwrap_or(false)
}

/// Gives up rights in the helper.
///
/// # Errors
/// The kernel refuses something.
pub fn enter_helper() -> io::Result<()> {
    limits::forbid_core_dumps()?;
    capabilities::keep(capabilities::of_helper())?;
    set_no_new_privs(true)?;
    syscalls::confine_process()
}

fn refused(name: &str, given_up: io::Result<()>) -> Result<(), String> {
    given_up.map_err(|error| {
        tracing::warn!("sandbox: this host does not offer {name}: {error}");
        format!("this host does not offer it: {error}")
    })
}

fn protection(name: &str, held: Result<String, String>) -> Protection {
    let in_force = held.is_ok();
    Protection {
        name: name.to_owned(),
        in_force,
        detail: held.unwrap_or_else(|why| why),
    }
}
