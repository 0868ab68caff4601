//! Programs and their options that must work, unmodified, between two stock guests and inside one.
//!
//! `$A` is the server guest's address, `$DEV` the RDMA device. GID index 1 is the IPv4 address. Every program checks
//! its data where it can (`-c` of the ping-pongs, `-V` of rping, `-T v` of rstream, the `ver_` tests of qperf); its
//! output must also contain the row's words.

/// One program pair.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The name that is printed; unique.
    pub(crate) name: String,
    /// The command that is started first; empty when the client needs no server.
    pub(crate) server: String,
    /// The client's command, whose exit status decides.
    pub(crate) client: String,
    /// Words that the client's output must contain.
    pub(crate) expect: &'static [&'static str],
    /// Whether the row also runs inside one guest. Not every row does: two pollers on one virtual processor take a
    /// scheduler tick for each message, and options of one program share a path there.
    pub(crate) alone: bool,
}

/// Program, its options, words to find.
type Fact = (&'static str, &'static str, &'static [&'static str]);

/// The server has no address in its arguments, the client does.
const PINGPONGS: &[Fact] = &[
    ("ibv_rc_pingpong", "-g 1 -c", &["1000 iters"]),
    ("ibv_rc_pingpong", "-g 1 -c -e", &["1000 iters"]),
    ("ibv_ud_pingpong", "-g 1 -c", &["1000 iters"]),
    ("ibv_ud_pingpong", "-g 1 -c -e", &["1000 iters"]),
    ("ibv_srq_pingpong", "-g 1 -c", &["iters in"]),
    ("ibv_srq_pingpong", "-g 1 -c -e", &["iters in"]),
];

const LATENCY: &[Fact] = &[
    ("ib_send_lat", "-n 200", &[]),
    ("ib_send_lat", "-a -n 20", &["8388608"]),
    ("ib_send_lat", "-e -n 200", &[]),
    ("ib_send_lat", "-c UD -n 200", &[]),
    ("ib_send_lat", "-c UD -e -n 200", &[]),
    ("ib_send_lat", "-R -n 200", &[]),
    ("ib_send_lat", "--use-srq -n 200", &[]),
    ("ib_send_lat", "-D 2", &[]),
    ("ib_write_lat", "-n 200", &[]),
    ("ib_write_lat", "-a -n 20", &["8388608"]),
    ("ib_write_lat", "-R -n 200", &[]),
    ("ib_write_lat", "-D 2", &[]),
    ("ib_read_lat", "-n 200", &[]),
    ("ib_read_lat", "-a -n 20", &["8388608"]),
    ("ib_read_lat", "-e -n 200", &[]),
    ("ib_read_lat", "-R -n 200", &[]),
    ("ib_read_lat", "-D 2", &[]),
    ("ib_atomic_lat", "-n 200", &[]),
    ("ib_atomic_lat", "-A CMP_AND_SWAP -n 200", &[]),
    ("ib_atomic_lat", "-e -n 200", &[]),
    ("ib_atomic_lat", "-R -n 200", &[]),
];

const BANDWIDTH: &[Fact] = &[
    ("ib_send_bw", "-n 200", &[]),
    ("ib_send_bw", "-a -n 20", &["8388608"]),
    ("ib_send_bw", "-e -n 200", &[]),
    ("ib_send_bw", "-c UD -n 200", &[]),
    ("ib_send_bw", "-R -n 200", &[]),
    ("ib_send_bw", "-q 8 -n 200", &[]),
    ("ib_send_bw", "--use-srq -q 8 -n 200", &[]),
    ("ib_send_bw", "-b -n 200", &[]),
    ("ib_send_bw", "-D 2", &[]),
    ("ib_send_bw", "-s 8388608 -n 20", &["8388608"]),
    ("ib_write_bw", "-n 200", &[]),
    ("ib_write_bw", "-a -n 20", &["8388608"]),
    ("ib_write_bw", "-R -n 200", &[]),
    ("ib_write_bw", "-q 8 -n 200", &[]),
    ("ib_write_bw", "-b -n 200", &[]),
    ("ib_write_bw", "-D 2", &[]),
    ("ib_write_bw", "-s 8388608 -n 20", &["8388608"]),
    ("ib_read_bw", "-n 200", &[]),
    ("ib_read_bw", "-a -n 20", &["8388608"]),
    ("ib_read_bw", "-e -n 200", &[]),
    ("ib_read_bw", "-R -n 200", &[]),
    ("ib_read_bw", "-q 8 -n 200", &[]),
    ("ib_read_bw", "-b -n 200", &[]),
    ("ib_read_bw", "-s 8388608 -n 20", &["8388608"]),
    ("ib_atomic_bw", "-n 200", &[]),
    ("ib_atomic_bw", "-q 8 -n 200", &[]),
    ("ib_atomic_bw", "-b -n 200", &[]),
    ("ib_atomic_bw", "-D 2", &[]),
];

/// qperf makes QPs on RoCE only through `rdma_cm` (`-cm1`): otherwise it does not fill the GRH, on any adapter. For the
/// same reason its `ud_*` tests fail on every RoCE device; `ib_send_lat -c UD` replaces them.
const QPERF: &[&str] = &[
    "rc_lat",
    "rc_bw",
    "rc_bi_bw",
    "rc_rdma_read_lat",
    "rc_rdma_read_bw",
    "rc_rdma_write_lat",
    "rc_rdma_write_bw",
    "rc_compare_swap_mr",
    "ver_rc_compare_swap",
    "ver_rc_fetch_add",
];

/// Programs whose two sides differ: name, server, client, words. (rping ends with status 0 also when its peer gives up;
/// its last ping shows that it ran to the end.)
const OTHERS: &[(&str, &str, &str, &[&str])] = &[
    (
        "ibv_devinfo -v",
        "",
        "ibv_devinfo -v",
        &["PORT_ACTIVE", "atomic_cap", "max_qp", "Ethernet"],
    ),
    (
        "rping",
        "rping -s -C 20 -V -S 4000",
        "rping -c -v -a $A -C 20 -V -S 4000",
        &["rdma-ping-19:"],
    ),
    (
        "ucmatose",
        "ucmatose",
        "ucmatose -s $A",
        &["return status 0"],
    ),
    ("udaddy", "udaddy", "udaddy -s $A", &["return status 0"]),
    (
        "rstream",
        "rstream -T v -S 16384 -C 10 -I 10",
        "rstream -s $A -T v -S 16384 -C 10 -I 10",
        &["16k"],
    ),
    (
        "rstream blocking",
        "rstream -T b -T v -S 65536 -C 10 -I 5",
        "rstream -s $A -T b -T v -S 65536 -C 10 -I 5",
        &["64k"],
    ),
    (
        "ucx_perftest rc_verbs",
        "UCX_NET_DEVICES=$DEV:1 UCX_TLS=rc_verbs,ud_verbs:aux ucx_perftest -P 0",
        "UCX_NET_DEVICES=$DEV:1 UCX_TLS=rc_verbs,ud_verbs:aux ucx_perftest -P 0 $A -t tag_lat -n 50 -w 5",
        &["Final"],
    ),
    (
        "ucx_perftest ud_verbs",
        "UCX_NET_DEVICES=$DEV:1 UCX_TLS=ud_verbs ucx_perftest -P 0",
        "UCX_NET_DEVICES=$DEV:1 UCX_TLS=ud_verbs ucx_perftest -P 0 $A -t tag_lat -n 50 -w 5",
        &["Final"],
    ),
];

/// Both its sides spin, which takes long on one processor; the blocking row runs there instead. (With `rpoll`, `-T a`,
/// its client may end with EBUSY when the server closes first: over Linux's rxe too.)
const SPINS: &str = "rstream";

/// Open MPI starts its remote rank over ssh, so both guests need the other's name for it; the words show which
/// transport UCX really used.
const OPEN_MPI: (&str, &str, &str, &[&str]) = (
    "Open MPI over rc_verbs",
    "",
    "mpirun --allow-run-as-root -np 2 -H a:1,b:1 --mca pml ucx --mca btl ^openib \
     -x UCX_NET_DEVICES=$DEV:1 -x UCX_TLS=rc_verbs,ud_verbs:aux,self -x UCX_LOG_LEVEL=info \
     NPopenmpi -u 65536 -n 20 2>&1",
    &["rc_verbs/", "65536 bytes"],
);

/// Options with which programs run inside one guest too.
const ALONE: &[&str] = &[
    "-n 200",
    "-c UD -n 200",
    "-R -n 200",
    "-q 8 -n 200",
    "-g 1 -c",
    "-g 1 -c -e",
];

/// Every row, in the order of the run.
pub(super) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = OTHERS.iter().map(other).collect();
    rows.push(Row {
        alone: false,
        ..other(&OPEN_MPI)
    });
    let with = |device: &'static str| {
        move |&(program, options, expect): &Fact| client_server(program, options, expect, device)
    };
    rows.extend(PINGPONGS.iter().map(with("-d $DEV")));
    let perftest = LATENCY.iter().chain(BANDWIDTH);
    rows.extend(perftest.map(with("-d $DEV -x 1 -F")));
    rows.extend(
        QPERF
            .iter()
            .flat_map(|test| [qperf(test, ""), qperf(test, "-cp1")]),
    );
    rows
}

fn other(&(name, server, client, expect): &(&str, &str, &str, &'static [&'static str])) -> Row {
    Row {
        name: name.to_owned(),
        server: server.to_owned(),
        client: client.to_owned(),
        expect,
        alone: name != SPINS,
    }
}

fn client_server(
    program: &str,
    options: &str,
    expect: &'static [&'static str],
    device: &str,
) -> Row {
    let server = format!("{program} {device} {options}");
    Row {
        name: format!("{program} {options}"),
        client: format!("{server} $A"),
        server,
        expect,
        alone: ALONE.contains(&options),
    }
}

fn qperf(test: &str, polling: &str) -> Row {
    Row {
        name: format!("qperf {test} {polling}").trim_end().to_owned(),
        server: "qperf".to_owned(),
        client: format!("qperf $A -t 1 -cm1 {polling} {test}"),
        expect: &["="],
        alone: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let rows = rows();
        let names: BTreeSet<_> = rows.iter().map(|row| &row.name).collect();
        assert_eq!(names.len(), rows.len());
    }
}
