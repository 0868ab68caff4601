//! Which rows a run has: all that its guests can do, or the few that CI has time for.

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

/// On a wire that loses frames: programs that check every byte, and one of each operation.
const SHORT_LOSSY: &[&str] = &[
    "rping",
    "rstream blocking",
    "ibv_rc_pingpong -g 1 -c",
    "ib_send_bw -n 200",
    "ib_write_bw -n 200",
    "ib_read_bw -n 200",
    "ib_atomic_bw -n 200",
];

/// What a wire with faults may take from: datagrams are nobody's to repeat.
const UNRELIABLE: &[&str] = &["udaddy", "ibv_ud_pingpong", "-c UD"];

/// The rows of a run between guests.
pub(super) fn rows(short: bool, lossy: bool) -> Vec<Row> {
    let mut rows = table::rows();
    if lossy {
        rows.retain(|row| !UNRELIABLE.iter().any(|name| row.name.contains(name)));
    }
    if short {
        let names = if lossy { SHORT_LOSSY } else { SHORT };
        rows.retain(|row| names.contains(&row.name.as_str()));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chosen_row_exists() {
        assert_eq!(rows(true, false).len(), SHORT.len());
        assert_eq!(rows(true, true).len(), SHORT_LOSSY.len());
    }

    #[test]
    fn datagrams_are_left_out_where_frames_are_lost() {
        let (all, lossy) = (rows(false, false), rows(false, true));
        assert!(lossy.len() < all.len());
        assert!(!lossy.iter().any(|row| row.name.contains("UD")));
    }
}
