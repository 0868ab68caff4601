//! Snapshots of a shard's adapters.

use vrdma_switch::PortId;

use crate::adapters::block_on;
use crate::client::Host;

/// Every adapter is in the snapshot once, though a turn adds only a few, and some are missing where a turn ends.
#[test]
fn every_adapter_is_told_of_once() {
    let host = Host::with_adapters(100);
    let removed = [0, 15, 16, 17, 99];
    for adapter in removed {
        block_on(host.handle.remove_adapter(PortId(adapter))).unwrap();
    }
    let told = block_on(host.handle.snapshot()).all;
    let told: Vec<u32> = told.iter().map(|snapshot| snapshot.port.0).collect();
    let left = (0..100).filter(|adapter| !removed.contains(adapter));
    assert_eq!(told, left.collect::<Vec<_>>());
}
