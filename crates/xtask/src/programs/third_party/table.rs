//! Programs that others wrote and that this project does not use itself.

use super::origin::Origin;

/// A program, what is done with it, and how one knows that it got the right data.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) origin: Origin,
    /// Whether it is one of the few that CI has time for.
    pub(super) is_short: bool,
    /// For the reader of the page.
    pub(super) does: &'static str,
    /// For the reader of the page.
    pub(super) checked: &'static str,
    /// May be empty.
    pub(super) server: &'static str,
    pub(super) client: &'static str,
    pub(super) expect: &'static [&'static str],
}

const TGT: Row = Row {
    name: "tgt iSER target, libiscsi",
    origin: Origin::Debian("tgt"),
    is_short: true,
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

/// What `fi_pingpong -c` prints of the last size.
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
    // fio retries nothing that finds no receive, so there is one for each of the 256 from the start.
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
        is_short: false,
        does: "a transfer of 8 MiB into another process's memory, and back",
        checked: "what comes back is compared",
        server: "PYTHONPATH=$WHEELS/mooncake-transfer-engine-non-cuda exec python3 $SCRIPTS/transfer.py target 2>&1",
        client: "PYTHONPATH=$WHEELS/mooncake-transfer-engine-non-cuda exec python3 $SCRIPTS/transfer.py initiator 2>&1",
        expect: &["installTransport, type=rdma", "8388608 bytes came back"],
    },
    Row {
        name: "ibverbs for Python",
        origin: Origin::Python("ibverbs"),
        is_short: false,
        does: "SEND, WRITE, READ of 1 MiB and an atomic, by a library that loads libibverbs at run time",
        checked: "both processes compare all of it",
        server: "PYTHONPATH=$WHEELS/ibverbs exec python3 $SCRIPTS/verbs.py server 2>&1",
        client: "PYTHONPATH=$WHEELS/ibverbs exec python3 $SCRIPTS/verbs.py client 2>&1",
        expect: &["SEND, WRITE, READ and an atomic are right"],
    },
];

/// All of it has to go.
const fn fio(
    name: &'static str,
    server: &'static str,
    client: &'static str,
    expect: &'static [&'static str],
) -> Row {
    Row {
        name,
        origin: Origin::Debian("fio"),
        does: "messages of 64 KiB, 8 at once",
        checked: "not by fio; how much went",
        is_short: false,
        server,
        client,
        expect,
    }
}

const fn pingpong(name: &'static str, server: &'static str, client: &'static str) -> Row {
    Row {
        name,
        origin: Origin::Debian("libfabric-bin"),
        does: "fi_pingpong, 64 B to 1 MiB",
        checked: "by fi_pingpong -c",
        is_short: false,
        server,
        client,
        expect: PINGPONG,
    }
}

/// Rows that are run.
pub(super) fn rows(short: bool) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.is_short || !short)
}
