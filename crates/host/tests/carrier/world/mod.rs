//! Hosts with stations, and the wires between them.

mod greedy;
mod memory;
mod station;
mod wire;

use std::net::Ipv4Addr;
use std::sync::Arc;

use vrdma_host::{Attachment, Host, Marks};
use vrdma_switch::{GroupId, Policy, PortId, UplinkId};
use vrdma_verbs::Time;
use vrdma_verbs::object::{Limits, QpId};
use vrdma_wire::{Gid, Mtu};

pub(crate) use greedy::{Greedy, assert_near, limit, work};
pub(crate) use station::{REGION_BYTES, Station};
pub(crate) use wire::{BATCH, Wire};

/// Most turns until everything that can move has moved.
const TURNS_MAX: usize = 10_000;

/// A host of the tests.
pub(crate) type Carrier = Host<Station, Wire>;

/// The address of a station.
pub(crate) fn gid(number: u8) -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, number))
}

/// Adds a station to port group `group`, whose VLAN and VXLAN network are its number plus ten.
pub(crate) fn add(host: &mut Carrier, number: u8, group: u32) -> PortId {
    let station = Station::new(number, gid(number));
    let attachment = attachment(&station, number, group);
    host.add(attachment, station).unwrap();
    attachment.port
}

/// Adds a station to a port group that has a policy.
pub(crate) fn add_limited(
    host: &mut Carrier,
    number: u8,
    group: u32,
    policy: &Arc<Policy>,
) -> PortId {
    let mut station = Station::new(number, gid(number));
    station.policy = Arc::new(Policy::in_group(Arc::clone(policy)));
    let attachment = attachment(&station, number, group);
    host.add(attachment, station).unwrap();
    attachment.port
}

/// Returns where a station is plugged in.
pub(crate) fn attachment(station: &Station, number: u8, group: u32) -> Attachment {
    let mark = group + 10;
    Attachment {
        port: PortId(u32::from(number)),
        group: GroupId(group),
        marks: Marks {
            vlan: Some(mark as u16),
            vni: Some(mark),
        },
        mac: station.mac,
    }
}

/// Adds a raw uplink; the test keeps a handle.
pub(crate) fn add_uplink(host: &mut Carrier, id: u32) -> Wire {
    let wire = Wire::new(1500);
    host.add_uplink(UplinkId(id), false, wire.clone(), Time(0));
    wire
}

pub(crate) fn station(host: &mut Carrier, port: PortId) -> &mut Station {
    host.touch(port, Time(0)).unwrap()
}

/// Connects fresh queue pairs of two stations of one host.
pub(crate) fn connect(host: &mut Carrier, a: PortId, b: PortId) -> [QpId; 2] {
    let qps = [a, b].map(|port| station(host, port).create_qp());
    let names = [(a, qps[0]), (b, qps[1])].map(|(port, qp)| station(host, port).name(qp));
    station(host, a).connect(qps[0], names[1]);
    station(host, b).connect(qps[1], names[0]);
    qps
}

/// Gives turns until nothing moves.
pub(crate) fn run(host: &mut Carrier, now: Time) {
    for _ in 0..TURNS_MAX {
        let moved = host.turn(now);
        if !host.flush(now) && !moved {
            return;
        }
    }
    panic!("the stations never come to rest");
}

/// Returns the limits of a station's engine.
fn limits() -> Limits {
    Limits {
        pds: 4,
        mrs: 4,
        cqs: 4,
        qps: 64,
        srqs: 4,
        gids: 4,
        rd_atomic: 16,
        message_bytes: 1 << 24,
        port_mtu: Mtu::B4096,
    }
}
