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
/// Resources that users of the host hold.
pub const USERS: &str = "/v1/users";
/// The counters of all adapters.
pub const STATS: &str = "/v1/stats";

/// Path of one port group.
pub fn portgroup(name: &Name) -> String {
    format!("{PORTGROUPS}/{name}")
}

/// Path of one adapter.
pub fn adapter(name: &Name) -> String {
    format!("{ADAPTERS}/{name}")
}

/// Path of one uplink.
pub fn uplink(name: &Name) -> String {
    format!("{UPLINKS}/{name}")
}

/// Path of one peer of a tunnel.
pub fn peer(uplink: &Name, address: Endpoint) -> String {
    format!("{UPLINKS}/{uplink}/peers/{address}")
}

/// Path of the counters of one adapter.
pub fn adapter_stats(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/stats")
}

/// Path of the objects of one adapter.
pub fn adapter_state(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/state")
}

/// POST: keeps an adapter only until the client hangs up.
pub fn hold(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/hold")
}

/// POST: returns the packets of one adapter.
pub fn trace(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/trace")
}

/// POST: tracks the pages of the guest's memory that an adapter writes.
pub fn track(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/track")
}

/// GET: how much of the guest's memory an adapter has written since it was tracked, as [`crate::WrittenMemory`].
pub fn written(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/written")
}

/// POST: QEMU sends what a frozen adapter has written, as if the guest had written it; the answer is
/// [`crate::WrittenMemory`].
pub fn resend(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/resend")
}

/// POST: stops a tracked adapter; the answer is its context. With [`crate::FreezeRequest`], or without a body.
pub fn freeze(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/freeze")
}

/// POST: lets another daemon bring the adapter's context, once; the answer is [`crate::Destination`].
pub fn expect(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/expect")
}

/// POST, with [`crate::Destination`]: checks that the daemon there expects the adapter's context.
pub fn reach(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/reach")
}

/// POST, with [`crate::HandOverRequest`]: stops a tracked adapter and brings its context to another daemon; the answer
/// is [`crate::HandedOverContext`]. If the context does not get there, the adapter stands still until it is thawed.
pub fn hand_over(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/hand-over")
}

/// POST: returns the context of a tracked adapter, which goes on afterwards.
pub fn save(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/save")
}

/// POST: a frozen or tracked adapter goes on as if nothing had happened.
pub fn thaw(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/thaw")
}

/// POST: gives a frozen adapter up, which is another daemon's from now on.
pub fn release(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/release")
}

/// PUT: keeps an adapter's context for it; the answer is [`crate::ArrivedContext`]. DELETE: forgets
/// it, and the adapter that was restored from it.
pub fn context(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/context")
}

/// POST, with [`crate::RestoreRequest`]: makes an adapter from its context; it does nothing yet.
pub fn restore(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/restore")
}

/// GET: the digest of the memory of a frozen adapter's guest, as [`crate::MemoryDigest`].
pub fn memory_digest(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/memory-digest")
}

/// POST: a restored adapter goes on where its context left off.
pub fn activate(name: &Name) -> String {
    format!("{ADAPTERS}/{name}/activate")
}

/// File name of the control socket in the run folder.
pub const SOCKET_FILE: &str = "vrdmad.sock";

/// File name of the socket for programs' libibverbs in the run folder.
pub const PROCESS_SOCKET_FILE: &str = "process.sock";

/// The environment variable with the path of that socket for libibverbs.
pub const PROCESS_SOCKET_VARIABLE: &str = "VRDMA_SOCKET";

/// The environment variable with the name of the adapter for libibverbs.
pub const ADAPTER_VARIABLE: &str = "VRDMA_ADAPTER";

/// The environment variable that, if `1`, lets libibverbs reach other processes of its user without the daemon.
pub const FAST_LOCAL_VARIABLE: &str = "VRDMA_FAST_LOCAL";

/// The environment variable that, if `0`, keeps libibverbs from moving registered memory into a file that the daemon
/// maps.
pub const ADOPT_VARIABLE: &str = "VRDMA_ADOPT";

/// Returns the daemon's socket that a program's libibverbs uses: `named` by the variable, or the first that exists in
/// the user's run folder and the system's.
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

/// Returns the default run folder: `$XDG_RUNTIME_DIR/vrdma` of a user, or `/run/vrdma`.
pub fn default_run_dir(xdg_runtime_dir: Option<&Path>) -> PathBuf {
    match xdg_runtime_dir {
        Some(folder) if folder.is_absolute() => folder.join("vrdma"),
        _ => PathBuf::from("/run/vrdma"),
    }
}
