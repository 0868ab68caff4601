//! Contexts made by each version, from which all later versions go on: `contexts/context1-2.bin` has version 1 of
//! contexts and version 2 of the engine's records, and so on.
//!
//! The pages in a context are the guest's whole memory. A file is never rewritten: it stands for snapshots that users
//! keep.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use vrdma_driver::object::QpShape;
use vrdma_driver::work::SendWork;
use vrdma_driver::{Fabric, Pair, PairOptions};
use vrdma_pvrdma::{CONTEXT_VERSION, Context, DeviceConfig, DeviceState};
use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::QpType;
use vrdma_verbs::outline::QpOutline;
use vrdma_verbs::saved;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/device/contexts")
}

fn file() -> PathBuf {
    folder().join(format!("context{CONTEXT_VERSION}-{}.bin", saved::VERSION))
}

/// Makes a device with some of everything: a connection with finished messages and one under way, datagrams, a shared
/// receive queue, regions.
fn made() -> Context {
    let mut pair = Pair::new();
    let zeros = vec![0; pair.a.buffer.length as usize];
    pair.a.buffer.write(&pair.fabric[0].ram, 0, &zeros);
    for id in 0..3 {
        pair.receive(id, 0, 100);
        pair.send(&SendWork::send(id).sge(pair.a.sge(0, 100)));
    }
    assert_eq!((pair.sent().len(), pair.received().len()), (3, 3));
    let options = PairOptions {
        shape: QpShape::UD,
        ..PairOptions::default()
    };
    let datagrams = pair.fabric.end(0, options);
    datagrams.buffer.write(&pair.fabric[0].ram, 0, &zeros);
    let vm = &mut pair.fabric[0];
    vm.start_datagrams(&datagrams.qp, Pair::QKEY).unwrap();
    vm.create_srq(datagrams.pd, 16, 2).unwrap();
    pair.fabric.lose(|_| true);
    pair.send(&SendWork::send(3).sge(pair.a.sge(0, 100)));
    let vm = &mut pair.fabric[0];
    Context {
        mac: vm.mac(),
        records: vm.device.freeze(),
        pages: vm.save_ram().pages(),
    }
}

fn qps(fabric: &mut Fabric) -> Vec<QpOutline> {
    let mut qps = fabric[0].device.outline(8).qps;
    qps.sort_by_key(|qp| qp.qp_type == QpType::Ud);
    qps
}

/// Checks that the device goes on: messages under way end, since there is no peer.
fn goes_on(name: &str, bytes: &[u8]) {
    let context = Context::decode(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut fabric = Fabric::new();
    let config = DeviceConfig::new(Fabric::identity(1));
    let guest = fabric.add_bare(config).unwrap();
    let vm = &mut fabric[guest];
    vm.go_on_alone(&context)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let now = vm.now();
    vm.device.thaw(now);
    let told = vm.device.snapshot();
    assert_eq!(
        (told.state, told.contexts),
        (DeviceState::Active, 2),
        "{name}"
    );
    assert_eq!((told.counts.qps, told.counts.cqs), (2, 4), "{name}");
    assert_eq!((told.counts.srqs, told.counts.mrs), (1, 2), "{name}");
    assert_eq!(told.gids, [(0, fabric[guest].gid())], "{name}");
    let [connection, datagrams] = qps(&mut fabric)[..] else {
        panic!("{name}: there are two queue pairs");
    };
    assert_eq!(datagrams.state, QpState::Rts, "{name}");
    let peer = connection.peer.map(|(gid, _)| gid);
    let second = vrdma_wire::Gid::link_local(Fabric::identity(2).mac);
    assert_eq!(
        (connection.state, peer),
        (QpState::Rts, Some(second)),
        "{name}"
    );
    fabric.pump();
    let sends = qps(&mut fabric)[0].sends;
    assert_eq!(
        sends, 1,
        "{name}: it was fetched from the guest's ring again"
    );
    fabric.pass(Duration::from_secs(60));
    assert_eq!(qps(&mut fabric)[0].state, QpState::Err, "{name}");
}

#[test]
fn devices_go_on_with_the_contexts_of_all_versions() {
    assert!(
        file().exists(),
        "{} is not there: `cargo test -p vrdma-driver --test device -- --ignored write_the_corpus` writes it",
        file().display()
    );
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        goes_on(&path.display().to_string(), &fs::read(&path).unwrap());
    }
}

#[test]
#[ignore = "writes a file, for whoever has raised a version"]
fn write_the_corpus() {
    assert!(!file().exists(), "what was saved once is not saved again");
    fs::create_dir_all(folder()).unwrap();
    fs::write(file(), made().encode()).unwrap();
}
