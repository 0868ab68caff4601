//! Core dumps: they have keys, and the memory of guests and programs as far as it is not left out.

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use vrdma_api::Protection;

use super::{protection, refused};

const NAME: &str = "core dumps";

pub(super) fn core_dumps(keeps: bool) -> Protection {
    if keeps {
        return protection(NAME, Err("vrdmad runs with --core-dumps".to_owned()));
    }
    let gain = "none, and no debugger of the daemon's own user";
    protection(
        NAME,
        refused(NAME, forbid_core_dumps()).map(|()| gain.to_owned()),
    )
}

/// The limit is for a kernel that pipes dumps to a program even of what is not dumpable.
pub(super) fn forbid_core_dumps() -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
