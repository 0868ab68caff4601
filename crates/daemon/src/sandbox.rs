//! What the daemon gives up, so that a fault of it is not one of the whole host.
//!
//! | given up | when | unless |
//! |---|---|---|
//! | core dumps and debuggers: guests' memory, keys | at the start | `--core-dumps` |
//! | capabilities; a helper opens interfaces ([`crate::interfaces`]) | at the start | `sandbox = false` |
//! | more rights by what it starts (`no_new_privs`) | at the start | `sandbox = false` |
//!
//! What the kernel does not offer is told once, and the daemon goes on: `vrdma doctor` shows what is in force.

mod capabilities;
mod limits;

use std::io;

use rustix::thread::set_no_new_privs;
use vrdma_api::Protection;

use crate::interfaces::{Helper, Interfaces};

/// How much of it is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// `sandbox` of the configuration.
    pub is_on: bool,
    /// A core dump has the memory of guests and programs; somebody wants it all the same.
    pub keeps_core_dumps: bool,
}

impl Options {
    /// Does `give_up` if the sandbox is on, and says once if the kernel does not offer it.
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

/// Gives up what only the first thread of a process can, before there are others.
pub(crate) fn enter(options: Options) -> (Vec<Protection>, Interfaces) {
    // Before new privileges: a file's capabilities are such.
    let (interfaces, rights) = give_up_rights(options);
    let protections = vec![
        limits::core_dumps(options.keeps_core_dumps),
        rights,
        options.protect(
            "new privileges",
            "nothing that vrdmad starts has more rights than it",
            || Ok(set_no_new_privs(true)?),
        ),
    ];
    (protections, interfaces)
}

/// Gives up capabilities, once there is a helper that has those of the network.
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
pub(crate) fn has_raw_right() -> bool {
    capabilities::has_raw().unwrap_or(false)
}

/// The same for the helper.
///
/// # Errors
/// The kernel refuses something.
pub(crate) fn enter_helper() -> io::Result<()> {
    limits::forbid_core_dumps()?;
    capabilities::keep(capabilities::of_helper())?;
    Ok(set_no_new_privs(true)?)
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
