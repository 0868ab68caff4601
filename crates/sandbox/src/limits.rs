//! Core dumps: they contain keys, and the memory of guests and programs unless it is excluded.

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

/// Forbids core dumps, twice: a change of credentials makes a process dumpable again (prctl(2)), and the limit does not
/// hold for dumps that the kernel pipes to a program (core(5)).
pub(super) fn forbid_core_dumps() -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
