//! Whether frames can leave this host.

use std::fs;
use std::io;
use std::net::UdpSocket;

use vrdma_api::Status;

use super::Check;

/// `CAP_NET_RAW` of `linux/capability.h`.
const CAP_NET_RAW: u32 = 13;

/// Checks both kinds of uplink: raw ones need a capability of the daemon or its helper, tunnels a UDP socket.
pub(super) fn checks(daemon: Option<&Status>) -> [Check; 2] {
    [
        raw(daemon),
        judge_tunnel(UdpSocket::bind("127.0.0.1:0").map(drop)),
    ]
}

/// Checks raw uplinks: by what a running daemon reports, otherwise by the rights of this command.
fn raw(daemon: Option<&Status>) -> Check {
    let Some(daemon) = daemon else {
        let status = fs::read_to_string("/proc/self/status").ok();
        let effective = status.as_deref().and_then(effective);
        let right = effective.map(|bits| bits >> CAP_NET_RAW & 1 == 1);
        return judge_raw("this user", right);
    };
    judge_raw("vrdmad", Some(daemon.opens_interfaces))
}

/// Returns the effective capabilities in a `status` file of `/proc`.
pub(super) fn effective(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

pub(super) fn judge_raw(who: &str, right: Option<bool>) -> Check {
    const NAME: &str = "raw uplinks";
    match right {
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
