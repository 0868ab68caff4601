//! What becomes of an adapter whose records find no room.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_keep::{Area, Capacity, Records};
use vrdma_provider::daemon::{CompletionRing, CqPlan};
use vrdma_switch::{GroupId, PortId};
use vrdma_verbs::object::{CqId, Owner};
use vrdma_wire::Mac;

use crate::Process;
use crate::objects::Cq;
use crate::slabs::Slabs;
use crate::spec::ProcessSpec;

const OWNER: Owner = Owner(1);

/// Records with room for so many small ones.
fn room_for(small: u32) -> Records {
    let area = Area::create(Capacity { small, large: 2 }).unwrap();
    let (records, found, unsound) = Records::open(area.as_fd(), |_| 0).unwrap();
    assert_eq!((found.len(), unsound), (0, 0));
    records
}

fn recorded_in(records: Records) -> Process {
    let spec = ProcessSpec {
        name: "a".into(),
        portgroup: "blue".into(),
        port: PortId(1),
        group: GroupId(1),
        mac: Mac([2, 0, 0, 0, 0, 1]),
        ip: Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))),
    };
    let mut process = Process::new(spec, 1);
    process.record_in(records);
    process
}

/// A completion queue, as a client makes one.
fn add_cq(process: &mut Process) -> CqId {
    let plan = CqPlan::new(16, true).unwrap();
    let memory = Slabs::default().grow(plan.bytes as usize).unwrap();
    let id = process.core.hca.create_cq(OWNER).unwrap();
    let cq = Cq {
        owner: OWNER,
        ring: CompletionRing::new(Arc::clone(&memory.area), plan.ring),
        memory,
        channel: None,
        cookie: 0,
        unpublished: false,
        urgent: false,
        dead: false,
    };
    process.cqs.put(id.0, cq);
    id
}

/// Takes all room but for so many small records.
fn leave_room_for(records: &Records, small: usize) {
    let mut taken = Vec::new();
    while let Ok(slot) = records.insert(1, 0, &[]) {
        taken.push(slot);
    }
    taken.drain(..small).for_each(|slot| records.remove(slot));
    records.commit();
}

#[test]
fn a_queue_without_room_for_its_progress_is_refused_and_the_others_stay_recorded() {
    let records = room_for(16);
    let mut process = recorded_in(records.clone());
    let [first, second] = [add_cq(&mut process), add_cq(&mut process)];
    assert_eq!(process.record_cq(first), Ok(()));
    // Enough for the queue, not for its progress.
    leave_room_for(&records, 1);
    assert_eq!(process.record_cq(second), Err(Errno::NOMEM));
    process.forget_cq(second);
    process.write_cq_progress(first);
    assert!(process.is_recorded(), "the first one has its room");
}

#[test]
fn a_change_that_finds_no_room_ends_the_records_of_the_adapter() {
    let records = room_for(16);
    let mut process = recorded_in(records.clone());
    let cq = add_cq(&mut process);
    leave_room_for(&records, 1);
    process.write_cq(cq);
    assert!(!process.is_recorded());
}

#[test]
fn progress_that_finds_no_room_ends_the_records_of_the_adapter() {
    let records = room_for(1);
    let mut process = recorded_in(records.clone());
    let cq = add_cq(&mut process);
    while records.insert(1, 0, &[]).is_ok() {}
    process.write_cq_progress(cq);
    assert!(!process.is_recorded());
    // What it had is room again.
    assert!(records.insert(1, 0, &[]).is_ok());
}
