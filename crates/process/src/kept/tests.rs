//! Adapters whose records find no room, clients whose worker ended while it notified, and notifications that find no
//! room.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use vrdma_adapter::FrontEnd;
use vrdma_keep::{Area, Capacity, Records};
use vrdma_memory::ClientMemory;
use vrdma_provider::client::CompletionQueue;
use vrdma_provider::daemon::{CompletionRing, CqPlan};
use vrdma_provider::layout::armed;
use vrdma_switch::{GroupId, PortId};
use vrdma_verbs::Time;
use vrdma_verbs::object::{CqId, Owner};
use vrdma_wire::Mac;

use crate::channel::{Channel, ChannelOf};
use crate::context::{Context, Joining};
use crate::objects::Cq;
use crate::slabs::Slabs;
use crate::spec::ProcessSpec;
use crate::users::Users;
use crate::{Process, Turn};

const OWNER: Owner = Owner(1);

/// Makes records with room for this number of small ones.
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

/// The cookie of the queue, as the client's channel gives it.
const COOKIE: u64 = 7;
const CHANNEL: u32 = 1;

/// Adds a client with a completion channel, and returns the channel's read end.
fn join(process: &mut Process) -> OwnedFd {
    let mut reads = join_with(process, OWNER, &[CHANNEL]);
    reads.remove(0)
}

/// Adds a client with channels, and returns their read ends.
fn join_with(process: &mut Process, owner: Owner, channels: &[u32]) -> Vec<OwnedFd> {
    let user = Users::default().of(0);
    let nowhere = std::fs::File::open("/dev/null").unwrap();
    let joining = Joining {
        memory: Arc::new(ClientMemory::resume(
            nowhere.into(),
            Arc::clone(&user.tenant),
        )),
        counts: Arc::clone(&user.counts),
        uid: 0,
        pid: None,
        fast: None,
        encloses: false,
    };
    let (mut context, _) = Context::new(joining).unwrap();
    let mut open = |number: &u32| {
        let (channel, read) = Channel::new().unwrap();
        fcntl_setfl(&read, OFlags::NONBLOCK).unwrap();
        context.channels.put(*number, channel);
        read
    };
    let reads = channels.iter().map(&mut open).collect();
    process.contexts.put(owner.0, context);
    reads
}

fn run_deferred(process: &mut Process, now: Time) {
    let space = process.memory();
    let memory = &space.view();
    process.run_deferred(Turn { memory, now });
}

/// Fills the pipe of the client's channel.
fn fill_pipe(process: &mut Process) -> ChannelOf {
    let full = ChannelOf {
        owner: OWNER,
        number: CHANNEL,
    };
    let mut others = COOKIE + 1..;
    let channel = full.find(&mut process.contexts).unwrap();
    while channel.notify(others.next().unwrap()) {}
    full
}

/// One client leaves its pipe full, next to another client with many channels: only the full one is tried again.
#[test]
fn only_channels_without_room_are_tried_again() {
    let mut process = recorded_in(room_for(16));
    let others: Vec<u32> = (0..64).collect();
    let _others = join_with(&mut process, Owner(2), &others);
    let read = join(&mut process);
    let id = add_cq(&mut process);
    let full = fill_pipe(&mut process);
    let is_waiting = |process: &Process| process.full_channels.iter().copied().eq([full]);
    for _ in 0..2 {
        process.notify(id, Time(0));
        assert!(is_waiting(&process), "once, and no other");
    }
    let due = process.deferred_until().unwrap();
    run_deferred(&mut process, due);
    assert!(is_waiting(&process) && process.deferred_until() > Some(due));
    while rustix::io::read(&read, &mut [0; 4096]).is_ok() {}
    let due = process.deferred_until().unwrap();
    run_deferred(&mut process, due);
    assert!(process.full_channels.is_empty() && process.deferred_until().is_none());
    let mut told = [0; 4096];
    let bytes = rustix::io::read(&read, &mut told).unwrap();
    assert!(told[..bytes].ends_with(&COOKIE.to_ne_bytes()));
}

/// A channel that goes while its pipe is full leaves nothing behind that would be tried for ever.
#[test]
fn a_full_channel_that_is_gone_is_forgotten() {
    let mut process = recorded_in(room_for(16));
    let _read = join(&mut process);
    let id = add_cq(&mut process);
    fill_pipe(&mut process);
    process.notify(id, Time(0));
    let due = process.deferred_until().unwrap();
    drop(process.contexts.take(OWNER.0));
    run_deferred(&mut process, due);
    assert!(process.full_channels.is_empty() && process.deferred_until().is_none());
}

/// Adds a completion queue, as a client makes one.
fn add_cq(process: &mut Process) -> CqId {
    let plan = plan();
    let memory = Slabs::default().grow(plan.bytes as usize).unwrap();
    let id = process.core.hca.create_cq(OWNER).unwrap();
    let cq = Cq {
        owner: OWNER,
        ring: CompletionRing::new(Arc::clone(&memory.area), plan.ring),
        memory,
        channel: Some(CHANNEL),
        cookie: COOKIE,
        unpublished: false,
        urgent: false,
        dead: false,
    };
    process.cqs.put(id.0, cq);
    id
}

fn plan() -> CqPlan {
    CqPlan::new(16, true).unwrap()
}

/// Takes all room except that for `small` small records.
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
    // There is room for the queue, but not for its progress.
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
    // The room of its records is free again.
    assert!(records.insert(1, 0, &[]).is_ok());
}

/// Found by `cargo xtask lab survive`: a program waited for ever for the notification of a completion that was there.
#[test]
fn a_client_whose_arming_went_with_a_worker_is_notified() {
    let mut process = recorded_in(room_for(16));
    let read = join(&mut process);
    let id = add_cq(&mut process);
    let cq = process.cqs.get(id.0).unwrap();
    let queue = CompletionQueue::new(Arc::clone(&cq.memory.area), plan().ring).unwrap();
    queue.arm(armed::ANY);
    // The worker ends here, before it has notified anybody.
    assert!(cq.ring.take_armed(false));
    process.wake_everything();
    let mut told = [0; 8];
    assert_eq!(rustix::io::read(&read, &mut told), Ok(told.len()));
    assert_eq!(u64::from_ne_bytes(told), COOKIE);
    process.wake_everything();
    assert_eq!(
        rustix::io::read(&read, &mut told),
        Err(Errno::AGAIN),
        "once it was told, nothing is owed"
    );
}
