//! Paths of requests and of files.

use std::path::{Path, PathBuf};

use crate::{Endpoint, Name};

/// Answers [`crate::Status`].
pub const STATUS: &str = "/v1/status";
/// The port groups.
pub const PORTGROUPS: &str = "/v1/portgroups";
/// The adapters.
pub const ADAPTERS: &str = "/v1/adapters";
/// The uplinks.
pub const UPLINKS: &str = "/v1/uplinks";
/// The peers of all tunnels.
pub const PEERS: &str = "/v1/peers";
/// What users of the host have.
pub const USERS: &str = "/v1/users";
/// The counters of all adapters.
pub const STATS: &str = "/v1/stats";

/// One port group.
pub fn portgroup(name: &Name) -> String {
    format!("{PORTGROUPS}/{name}")
}

/// One adapter.
pub fn adapter(name: &Name) -> String {
    format!("{ADAPTERS}/{name}")
}

/// One uplink.
pub fn uplink(name: &Name) -> String {
    format!("{UPLINKS}/{name}")
}

/// One peer of a tunnel.
pub fn peer(uplink: &Name, address: Endpoint) -> String {
    format!("{UPLINKS}/{uplink}/peers/{address}")
}

/// The counters of one adapter.
pub fn adapter_stats(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/stats")
}

/// What one adapter is made of.
pub fn adapter_state(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/state")
}

/// Keeps an adapter only until the client hangs up.
pub fn hold(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/hold")
}

/// The packets of one adapter.
pub fn trace(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/trace")
}

/// POST: notes which pages of the guest's memory an adapter writes.
pub fn track(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/track")
}

/// GET: how much of the guest's memory an adapter has written since it is tracked, as [`crate::WrittenMemory`].
pub fn written(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/written")
}

/// POST: what a frozen adapter has written is QEMU's to send, as if the guest had written it; the answer is
/// [`crate::WrittenMemory`].
pub fn resend(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/resend")
}

/// POST: an adapter that is tracked does nothing any more; the answer is its context. With [`crate::FreezeRequest`], or
/// without a body.
pub fn freeze(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/freeze")
}

/// POST: the adapter's context may be brought by another daemon, once; the answer is [`crate::Destination`].
pub fn expect(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/expect")
}

/// POST, with [`crate::Destination`]: whether the daemon there expects the adapter's context.
pub fn reach(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/reach")
}

/// POST, with [`crate::HandOverRequest`]: an adapter that is tracked does nothing any more, and its context goes to another
/// daemon; the answer is [`crate::HandedOverContext`]. If its context does not get there, it stands still until it is thawed.
pub fn hand_over(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/hand-over")
}

/// POST: the context of an adapter that is tracked, which goes on afterwards.
pub fn save(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/save")
}

/// POST: a frozen or tracked adapter goes on as if nothing had been.
pub fn thaw(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/thaw")
}

/// POST: a frozen adapter is another daemon's from now on.
pub fn release(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/release")
}

/// PUT: keeps an adapter's context for it; the answer is [`crate::ArrivedContext`]. DELETE: forgets
/// it, and the adapter that was restored from it.
pub fn context(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/context")
}

/// POST, with [`crate::RestoreRequest`]: an adapter is made from its context, and does nothing yet.
pub fn restore(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/restore")
}

/// GET: what is in the guest's memory of a frozen adapter, as [`crate::MemoryDigest`].
pub fn memory_digest(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/memory-digest")
}

/// POST: an adapter that was restored goes on where its context left off.
pub fn activate(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/activate")
}

/// File name of the control socket in the run folder.
pub const SOCKET_FILE: &str = "vrdmad.sock";

/// File name of the socket for programs' libibverbs in the run folder.
pub const PROCESS_SOCKET_FILE: &str = "process.sock";

/// The variable that names that socket to libibverbs.
pub const PROCESS_SOCKET_VARIABLE: &str = "VRDMA_SOCKET";

/// The variable that names the adapter to libibverbs.
pub const ADAPTER_VARIABLE: &str = "VRDMA_ADAPTER";

/// The variable that lets libibverbs, when it is `1`, reach others of its user by itself.
pub const FAST_LOCAL_VARIABLE: &str = "VRDMA_FAST_LOCAL";

/// The variable that keeps libibverbs, when it is `0`, from moving registered memory into a file that the daemon maps.
pub const ADOPT_VARIABLE: &str = "VRDMA_ADOPT";

/// Where a program's libibverbs looks for the daemon: `named` by the variable, or the first that is
/// there in a person's run folder and the system's.
pub fn process_socket(named: Option<&Path>, xdg_runtime_dir: Option<&Path>) -> PathBuf {
    let own = || {
        let path = default_run_dir(Some(xdg_runtime_dir?)).join(PROCESS_SOCKET_FILE);
        path.exists().then_some(path)
    };
    let system = || default_run_dir(None).join(PROCESS_SOCKET_FILE);
    named
        .map(Path::to_owned)
        .or_else(own)
        .unwrap_or_else(system)
}

/// The run folder when nothing else is said: `$XDG_RUNTIME_DIR/vrdma` of a person, or `/run/vrdma`.
pub fn default_run_dir(xdg_runtime_dir: Option<&Path>) -> PathBuf {
    match xdg_runtime_dir {
        Some(folder) if folder.is_absolute() => folder.join("vrdma"),
        _ => PathBuf::from("/run/vrdma"),
    }
}
