//! The rows of a run: all that its guests can do, or the few that CI has time for.

use super::table::{self, Row};

/// One row of each program and of each path through the engine.
const SHORT: &[&str] = &[
    "rping",
    "ucmatose",
    "udaddy",
    "rstream blocking",
    "ucx_perftest rc_verbs",
    "ibv_rc_pingpong -g 1 -c",
    "ibv_rc_pingpong -g 1 -c -e",
    "ibv_ud_pingpong -g 1 -c",
    "ibv_srq_pingpong -g 1 -c",
    "ib_send_lat -c UD -n 200",
    "ib_send_lat -R -n 200",
    "ib_write_lat -n 200",
    "ib_read_lat -n 200",
    "ib_atomic_lat -n 200",
    "ib_atomic_lat -A CMP_AND_SWAP -n 200",
    "ib_send_bw -n 200",
    "ib_send_bw -q 8 -n 200",
    "ib_write_bw -n 200",
    "ib_write_bw -R -n 200",
    "ib_read_bw -n 200",
    "ib_atomic_bw -n 200",
    "qperf rc_bw",
    "qperf rc_rdma_read_bw",
    "qperf ver_rc_fetch_add",
];

/// Rows on a wire that loses frames: programs that check every byte, and one of each operation.
const SHORT_LOSSY: &[&str] = &[
    "rping",
    "rstream blocking",
    "ibv_rc_pingpong -g 1 -c",
    "ib_send_bw -n 200",
    "ib_write_bw -n 200",
    "ib_read_bw -n 200",
    "ib_atomic_bw -n 200",
];

/// Rows that fail when a wire loses frames: datagrams are not sent again.
const UNRELIABLE: &[&str] = &["udaddy", "ibv_ud_pingpong", "-c UD"];

/// perftest asks the other side for as many reads and atomics at a time as its own device supports, which fails between
/// different devices. All support this number.
const COMMON_READS: &str = " -o 16";

/// Rows that also fail with rxe on both sides: UCX's datagram endpoints, which its other transports need to connect,
/// get no answer ("unhandled timeout error").
const NOT_OVER_RXE: &[&str] = &["ucx_perftest", "Open MPI"];

/// The devices and the wire of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Whether only the rows that CI has time for run.
    pub(crate) short: bool,
    /// Whether the wire loses frames.
    pub(crate) lossy: bool,
    /// Whether the two devices are of different kinds.
    pub(crate) unlike: bool,
    /// Whether a device is Linux's rxe.
    pub(crate) rxe: bool,
}

/// The rows of a run between guests.
pub(crate) fn rows(setting: Setting) -> Vec<Row> {
    let mut rows = table::rows();
    if setting.unlike {
        rows.iter_mut().for_each(limit_reads);
    }
    if setting.rxe {
        rows.retain(|row| !is_named(row, NOT_OVER_RXE));
    }
    if setting.lossy {
        rows.retain(|row| !is_named(row, UNRELIABLE));
    }
    if setting.short {
        let names = if setting.lossy { SHORT_LOSSY } else { SHORT };
        rows.retain(|row| names.contains(&row.name.as_str()));
    }
    rows
}

fn is_named(row: &Row, names: &[&str]) -> bool {
    names.iter().any(|name| row.name.contains(name))
}

fn limit_reads(row: &mut Row) {
    if row.name.starts_with("ib_read") || row.name.starts_with("ib_atomic") {
        row.server.push_str(COMMON_READS);
        row.client.push_str(COMMON_READS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Setting = Setting {
        short: false,
        lossy: false,
        unlike: false,
        rxe: false,
    };

    const SHORT_SETTING: Setting = Setting { short: true, ..ALL };

    #[test]
    fn every_chosen_row_exists() {
        assert_eq!(rows(SHORT_SETTING).len(), SHORT.len());
        let lossy = Setting {
            lossy: true,
            ..SHORT_SETTING
        };
        assert_eq!(rows(lossy).len(), SHORT_LOSSY.len());
    }

    #[test]
    fn datagrams_are_left_out_where_frames_are_lost() {
        let lossy = rows(Setting { lossy: true, ..ALL });
        assert!(lossy.len() < rows(ALL).len());
        assert!(!lossy.iter().any(|row| row.name.contains("UD")));
    }

    #[test]
    fn unlike_devices_agree_on_their_reads() {
        let rows = rows(Setting {
            unlike: true,
            ..ALL
        });
        let read = rows.iter().find(|row| row.name == "ib_read_lat -n 200");
        assert!(read.unwrap().client.ends_with("$A -o 16"));
        let write = rows.iter().find(|row| row.name == "ib_write_lat -n 200");
        assert!(!write.unwrap().client.contains("-o 16"));
    }
}
