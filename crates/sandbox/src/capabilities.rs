//! Capabilities: what the daemon needs them for is done by a helper, which is started before.

use std::io;

use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// What raw uplinks, TAPs and large socket buffers need.
const NETWORK: CapabilitySet = CapabilitySet::NET_RAW.union(CapabilitySet::NET_ADMIN);

/// Whether this process may do on the network what others may not.
pub(super) fn has_network() -> io::Result<bool> {
    Ok(capabilities(None)?.effective.intersects(NETWORK))
}

/// Whether it may open packet sockets.
pub(super) fn has_raw() -> io::Result<bool> {
    Ok(capabilities(None)?
        .effective
        .contains(CapabilitySet::NET_RAW))
}

/// Gives up all but those, and the way back.
pub(super) fn keep(kept: CapabilitySet) -> io::Result<()> {
    for one in CapabilitySet::all().difference(kept) {
        match remove_capability_from_bounding_set(one) {
            // Older kernels have fewer; without CAP_SETPCAP no_new_privs is all the same.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    clear_ambient_capability_set()?;
    let sets = capabilities(None)?;
    let kept = sets.permitted.intersection(kept);
    if sets.permitted == kept && sets.inheritable.is_empty() {
        // A supervisor that gave none may not let it say so either.
        return Ok(());
    }
    Ok(set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?)
}

/// What the daemon keeps. One that runs as root is to reach the memory of root's programs, which have
/// capabilities that it has not (`cap_ptrace_access_check` of the kernel); under a user of its own it needs none.
pub(super) fn of_daemon() -> CapabilitySet {
    match geteuid().is_root() {
        true => CapabilitySet::SYS_PTRACE,
        false => CapabilitySet::empty(),
    }
}

/// What the helper keeps.
pub(super) fn of_helper() -> CapabilitySet {
    NETWORK
}
