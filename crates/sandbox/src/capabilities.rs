//! Capabilities: tasks that need them are left to a helper, which is started first.

use std::io;

use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Capabilities needed for raw uplinks, TAPs and large socket buffers.
const NETWORK: CapabilitySet = CapabilitySet::NET_RAW.union(CapabilitySet::NET_ADMIN);

/// Whether this process has rights on the network that others do not have.
pub(super) fn has_network() -> io::Result<bool> {
    Ok(capabilities(None)?.effective.intersects(NETWORK))
}

/// Whether this process may open packet sockets.
pub(super) fn has_raw() -> io::Result<bool> {
    Ok(capabilities(None)?
        .effective
        .contains(CapabilitySet::NET_RAW))
}

/// Gives up all capabilities but these, for good.
pub(super) fn keep(kept: CapabilitySet) -> io::Result<()> {
    for one in CapabilitySet::all().difference(kept) {
        match remove_capability_from_bounding_set(one) {
            // Older kernels have fewer capabilities; without CAP_SETPCAP, no_new_privs has the same effect.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    clear_ambient_capability_set()?;
    let sets = capabilities(None)?;
    let kept = sets.permitted.intersection(kept);
    if sets.permitted == kept && sets.inheritable.is_empty() {
        // A supervisor that granted no capabilities may not allow the call to drop them either.
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

/// Returns the capabilities that the daemon keeps. A daemon of root needs to reach the memory of root's programs, which
/// have capabilities that it does not have (`cap_ptrace_access_check` of the kernel); a daemon with a user of its own
/// needs none.
pub(super) fn of_daemon() -> CapabilitySet {
    match geteuid().is_root() {
        true => CapabilitySet::SYS_PTRACE,
        false => CapabilitySet::empty(),
    }
}

/// Returns the capabilities that the helper keeps.
pub(super) fn of_helper() -> CapabilitySet {
    NETWORK
}
