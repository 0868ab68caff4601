//! Third-party programs that this project does not use itself.

use std::time::Duration;

use anyhow::Result;
use vrdma_lab::image::Root;

use super::super::PROGRAM_LIMIT;
use super::origin::Origin;

/// A program, its use, and the way to check that it received the right data.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) origin: Origin,
    /// Another origin that it needs.
    pub(super) beside: Option<Origin>,
    /// Whether it is one of the few that CI has time for.
    pub(super) is_short: bool,
    /// How long the client may take.
    pub(super) limit: Duration,
    /// What the program does, for readers of the page.
    pub(super) does: &'static str,
    /// How its data is checked, for readers of the page.
    pub(super) checked: &'static str,
    /// The server's command; may be empty.
    pub(super) server: &'static str,
    pub(super) client: &'static str,
    pub(super) expect: &'static [&'static str],
}

const TGT: Row = Row {
    name: "tgt iSER target, libiscsi",
    origin: Origin::Debian("tgt"),
    beside: None,
    is_short: true,
    limit: PROGRAM_LIMIT,
    does: "tgtd serves a disk over iSER; iscsi-test-cu writes and reads, iscsi-perf reads for two seconds",
    checked: "by iscsi-test-cu, block by block",
    server: include_str!("scripts/tgt.sh"),
    client: include_str!("scripts/libiscsi.sh"),
    expect: &[
        "768    768    768      0",
        "512    512    512      0",
        "finished.",
    ],
};

/// The limit of the script, which waits a second before each of its tests.
const FABTESTS_LIMIT: Duration = Duration::from_secs(400);

/// The output of `fi_pingpong -c` for the last size.
const PINGPONG: &[&str] = &["1m      100     =100"];

pub(super) const ROWS: &[Row] = &[
    TGT,
    Row {
        name: "QEMU's iSCSI driver",
        origin: Origin::Debian("qemu-block-extra"),
        does: "qemu-io writes 4, 64 and 256 KiB to tgtd's disk over iSER; qemu-img copies all of it",
        checked: "qemu-io's patterns; the copy is the file that tgtd serves",
        client: include_str!("scripts/qemu-io.sh"),
        expect: &["the whole disk is the same"],
        ..TGT
    },
    fio(
        "fio, WRITE",
        "exec fio --name=s --ioengine=rdma --port=7000 --rw=read --bs=64k --size=64m --iodepth=16",
        "fio --name=c --ioengine=rdma --hostname=$A --port=7000 --verb=write --rw=write --bs=64k --size=64m \
         --iodepth=8 --iodepth_batch_complete=1",
        &["WRITE: bw=", "io=64.0MiB (67.1MB)", "err= 0"],
    ),
    fio(
        "fio, READ",
        "exec fio --name=s --ioengine=rdma --port=7000 --rw=read --bs=64k --size=64m --iodepth=16",
        "fio --name=c --ioengine=rdma --hostname=$A --port=7000 --verb=read --rw=write --bs=64k --size=64m \
         --iodepth=8 --iodepth_batch_complete=1",
        &["WRITE: bw=", "io=64.0MiB (67.1MB)", "err= 0"],
    ),
    // fio does not retry when there is no receive, so one is posted for each of the 256 from the start.
    fio(
        "fio, SEND",
        "exec fio --name=s --ioengine=rdma --port=7000 --verb=recv --rw=read --bs=64k --size=16m --iodepth=256",
        "fio --name=c --ioengine=rdma --hostname=$A --port=7000 --verb=send --rw=write --bs=64k --size=16m \
         --iodepth=8 --iodepth_batch_complete=1",
        &["WRITE: bw=", "io=16.0MiB (16.8MB)", "err= 0"],
    ),
    pingpong(
        "libfabric, verbs",
        "exec fi_pingpong -p verbs -e msg -d vrdma0 -I 100 -c",
        "fi_pingpong -p verbs -e msg -d vrdma0 -I 100 -c $A",
    ),
    pingpong(
        "libfabric, verbs;ofi_rxm",
        "exec fi_pingpong -p 'verbs;ofi_rxm' -e rdm -I 100 -c",
        "fi_pingpong -p 'verbs;ofi_rxm' -e rdm -I 100 -c $A",
    ),
    pingpong(
        "libfabric, verbs;ofi_rxd",
        "exec fi_pingpong -p 'verbs;ofi_rxd' -e rdm -I 100 -c",
        "fi_pingpong -p 'verbs;ofi_rxd' -e rdm -I 100 -c $A",
    ),
    Row {
        name: "Mooncake's transfer engine",
        origin: Origin::Python("mooncake-transfer-engine-non-cuda"),
        beside: None,
        is_short: false,
        limit: PROGRAM_LIMIT,
        does: "a transfer of 8 MiB into another process's memory, and back",
        checked: "what comes back is compared",
        server: "PYTHONPATH=$WHEELS/mooncake-transfer-engine-non-cuda exec python3 $SCRIPTS/transfer.py target 2>&1",
        client: "PYTHONPATH=$WHEELS/mooncake-transfer-engine-non-cuda exec python3 $SCRIPTS/transfer.py initiator 2>&1",
        expect: &["installTransport, type=rdma", "8388608 bytes came back"],
    },
    Row {
        name: "ibverbs for Python",
        origin: Origin::Python("ibverbs"),
        beside: None,
        is_short: false,
        limit: PROGRAM_LIMIT,
        does: "SEND, WRITE, READ of 1 MiB and an atomic, by a library that loads libibverbs at run time",
        checked: "both processes compare all of it",
        server: "PYTHONPATH=$WHEELS/ibverbs exec python3 $SCRIPTS/verbs.py server 2>&1",
        client: "PYTHONPATH=$WHEELS/ibverbs exec python3 $SCRIPTS/verbs.py client 2>&1",
        expect: &["SEND, WRITE, READ and an atomic are right"],
    },
    Row {
        name: "valkey",
        origin: Origin::Source("valkey"),
        beside: None,
        is_short: false,
        limit: PROGRAM_LIMIT,
        does: "its own test of RDMA: four threads SET and GET up to 8,192 values of 1 KiB each, one makes the server fork (BGSAVE)",
        checked: "by the test, value by value",
        server: "cd /tmp && exec $BUILT/valkey/valkey-server --port 0 --protected-mode no --appendonly no \
                 --rdma-bind $A --rdma-port 6379",
        client: "$BUILT/valkey/rdma-test -t 4 -h $A && $BUILT/valkey/rdma-test -h $A",
        expect: &[
            "BGSAVE [OK]",
            "Valkey Over RDMA test [OK]",
            "in main thread",
            "GET",
        ],
    },
    fabtests(
        "fabtests over libfabric's verbs",
        "sh $SCRIPTS/fabtests.sh verbs verbs",
    ),
    fabtests(
        "fabtests over libfabric's verbs;ofi_rxm",
        "sh $SCRIPTS/fabtests.sh 'verbs;ofi_rxm' ofi_rxm",
    ),
    Row {
        name: "sideway's tests",
        origin: Origin::Crate("sideway"),
        beside: None,
        is_short: false,
        limit: PROGRAM_LIMIT,
        does: "all tests of the library but those of what must not compile",
        checked: "by the tests",
        server: "",
        client: "cd $CRATES/sideway/tests && \
                 for test in sideway test_atomic test_cq test_mr_and_cq test_post_send test_qp; do ./$test || exit 1; done",
        expect: &["test result: ok."],
    },
    mpi(
        "MPICH over libfabric's verbs",
        Origin::PythonWithLibraries("mpich"),
        "export PATH=$WHEELS/mpich/bin:$PATH LD_LIBRARY_PATH=$WHEELS/mpich/lib:$LD_LIBRARY_PATH \
         FI_PROVIDER='verbs;ofi_rxm' MPIR_CVAR_CH4_NETMOD=ofi MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_DEBUG_SUMMARY=1 \
         PYTHONPATH=$WHEELS/mpi4py MPI4PY_MPIABI=mpich MPI4PY_LIBMPI=$WHEELS/mpich/lib/libmpi.so.12 && \
         mpiexec -n 4 python3 $SCRIPTS/collectives.py 2>&1",
        &["libfabric provider: verbs", "all collectives are right"],
    ),
    mpi(
        "Open MPI over UCX's rc_verbs",
        Origin::Debian("openmpi-bin"),
        "export PYTHONPATH=$WHEELS/mpi4py && \
         mpirun --allow-run-as-root --oversubscribe -np 4 --mca pml ucx -x PYTHONPATH -x UCX_NET_DEVICES=vrdma0:1 \
         -x UCX_TLS=rc_verbs,ud_verbs:aux,self -x UCX_LOG_LEVEL=info python3 $SCRIPTS/collectives.py 2>&1",
        &["rc_verbs/", "all collectives are right"],
    ),
];

/// All ranks are on one adapter, but as separate as on two hosts: none of them uses shared memory.
const fn mpi(
    name: &'static str,
    origin: Origin,
    client: &'static str,
    expect: &'static [&'static str],
) -> Row {
    Row {
        name,
        origin,
        beside: Some(Origin::Python("mpi4py")),
        does: "allreduce, broadcast, allgather, alltoall and reduce-scatter of 8 B to 800 kB among 4 processes, by mpi4py",
        checked: "each process knows the result beforehand",
        is_short: true,
        limit: PROGRAM_LIMIT,
        server: "",
        client,
        expect,
    }
}

/// Runs both ends on one adapter, by libfabric's own script, which leaves out tests that upstream lists as unsuitable
/// for the provider and reports what else a provider does not support.
const fn fabtests(name: &'static str, client: &'static str) -> Row {
    Row {
        name,
        origin: Origin::Source("libfabric"),
        beside: None,
        does: "the quick set of runfabtests.sh: unit, functional and short tests, without fi_msg_sockets",
        checked: "by the tests, where they have -v",
        is_short: false,
        limit: FABTESTS_LIMIT,
        server: "",
        client,
        expect: &["Percentage of Pass"],
    }
}

/// A row of fio, which must transfer everything.
const fn fio(
    name: &'static str,
    server: &'static str,
    client: &'static str,
    expect: &'static [&'static str],
) -> Row {
    Row {
        name,
        origin: Origin::Debian("fio"),
        beside: None,
        does: "messages of 64 KiB, 8 at once",
        checked: "not by fio; how much went",
        is_short: false,
        limit: PROGRAM_LIMIT,
        server,
        client,
        expect,
    }
}

const fn pingpong(name: &'static str, server: &'static str, client: &'static str) -> Row {
    Row {
        name,
        origin: Origin::Debian("libfabric-bin"),
        beside: None,
        does: "fi_pingpong, 64 B to 1 MiB",
        checked: "by fi_pingpong -c",
        is_short: false,
        limit: PROGRAM_LIMIT,
        server,
        client,
        expect: PINGPONG,
    }
}

impl Row {
    /// Whether it needs programs built from sources.
    pub(super) fn is_built(&self) -> bool {
        matches!(self.origin, Origin::Source(_))
    }

    /// Obtains what it needs, unless it is there, and returns the program's version.
    pub(super) fn version(&self, root: &Root) -> Result<String> {
        if let Some(beside) = self.beside {
            beside.version(root)?;
        }
        self.origin.version(root)
    }
}

/// The rows to run.
pub(super) fn rows(short: bool) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.is_short || !short)
}
