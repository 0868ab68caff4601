//! Whether frames can leave this host.

use std::fs;
use std::io;
use std::net::UdpSocket;

use super::Check;

/// `CAP_NET_RAW` of `linux/capability.h`.
const CAP_NET_RAW: u32 = 13;

/// Raw uplinks need a capability of the daemon, tunnels a UDP socket.
pub(super) fn checks(daemon: Option<u32>) -> [Check; 2] {
    [
        raw(daemon),
        judge_tunnel(UdpSocket::bind("127.0.0.1:0").map(drop)),
    ]
}

/// The daemon's own rights where it runs, those of this command otherwise.
fn raw(daemon: Option<u32>) -> Check {
    let process = daemon.map_or("self".to_owned(), |pid| pid.to_string());
    let status = fs::read_to_string(format!("/proc/{process}/status"));
    judge_raw(daemon.is_some(), status.ok().as_deref().and_then(effective))
}

/// The effective capabilities in a `status` file of `/proc`.
pub(super) fn effective(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

pub(super) fn judge_raw(is_daemon: bool, effective: Option<u64>) -> Check {
    const NAME: &str = "raw uplinks";
    let who = if is_daemon { "vrdmad" } else { "this user" };
    match effective.map(|bits| bits >> CAP_NET_RAW & 1 == 1) {
        Some(true) => Check::ok(NAME, format!("{who} has CAP_NET_RAW")),
        Some(false) => Check::warn(
            NAME,
            format!(
                "{who} has no CAP_NET_RAW; use a tunnel, or give it to vrdmad with AmbientCapabilities=CAP_NET_RAW in its unit or `setcap cap_net_raw+ep` on its file"
            ),
        ),
        None => Check::warn(
            NAME,
            format!("cannot see whether {who} has CAP_NET_RAW; try `vrdma uplink add`"),
        ),
    }
}

pub(super) fn judge_tunnel(bound: io::Result<()>) -> Check {
    const NAME: &str = "tunnels";
    match bound {
        Ok(()) => Check::ok(
            NAME,
            "UDP sockets can be opened; open UDP 4789 in the firewall",
        ),
        Err(error) => Check::fail(
            NAME,
            format!("no UDP socket can be opened ({error}); give the host a network"),
        ),
    }
}
