//! VMs whose own client moves the adapter, by messages of vfio-user: a driver, scripted clients, and daemons.
//!
//! ```text
//!   driver of a guest ── memory (memfd) ──┐
//!        │ doorbells                      ├── vrdmad
//!   Vmm ─┴── vfio-user: MIG_DATA, states ─┘
//! ```
//! Devices and their connections are made in this process. They come to the first daemon in the same way as to the
//! second one.

mod blocking;
mod daemon;
mod resending;
mod vmm;

use std::collections::BTreeMap;
use std::time::Instant;

use rustix::io::Errno;
use vrdma_api::paths;
use vrdma_api_client::Error;
use vrdma_driver::object::{Completion, Connection, Cq, qp_mask, qp_state};
use vrdma_driver::work::SendWork;
use vrdma_driver::{Clock, End, Fabric, Guest, PairOptions};
use vrdma_pvrdma::abi::qp::{AddressAttributes, QpAttributes};
use vrdma_pvrdma::{Context, DeviceConfig};
use vrdma_vfio_user::migration::State;

use daemon::{Daemon, PATIENCE, adapters, free_ends, name, tunnel};
use vmm::Vmm;

/// Bytes of a message: several pages, and not a whole number of them.
const LENGTH: u32 = 20_000;

/// 4.096 us * 2^18 = 1 s: a VM may stand still that long, eight times.
const TIMEOUT: u8 = 18;

/// A guest with its end of the connection, and its vfio-user client.
struct Vm {
    guest: Guest,
    end: End,
    vmm: Vmm,
}

fn config(number: u8) -> DeviceConfig {
    DeviceConfig {
        maps_doorbells: false,
        ..DeviceConfig::new(Fabric::identity(number))
    }
}

/// Makes two connected guests, whose devices are still in this process.
fn guests() -> [(Guest, End); 2] {
    let mut fabric = Fabric::new();
    let numbers = [1, 2].map(|number| fabric.add_with(config(number)));
    let ends = numbers.map(|guest| fabric.end(guest, PairOptions::default()));
    for (own, peer) in [(0, 1), (1, 0)] {
        let connection = Connection::to(ends[peer].qp.qpn, fabric[peer].gid());
        let attributes = connection.attributes();
        // The address that the guest's kernel has resolved.
        let ah_attr = AddressAttributes {
            dmac: fabric[peer].mac().0,
            ..attributes.ah_attr
        };
        let attributes = |state: u32| QpAttributes {
            qp_state: state.into(),
            timeout: TIMEOUT,
            ah_attr,
            ..attributes
        };
        let (guest, qp) = (&mut fabric[own], &ends[own].qp);
        guest.init_qp(qp, connection.access, 0).unwrap();
        let masks = [
            (qp_state::RTR, qp_mask::RC_RTR),
            (qp_state::RTS, qp_mask::RC_RTS),
        ];
        for (state, mask) in masks {
            guest.modify_qp(qp, mask, attributes(state)).unwrap();
        }
    }
    fabric.pump();
    let [a, b] = ends;
    [(fabric.take(0), a), (fabric.take(1), b)]
}

/// Returns the data of a device in this process, which does nothing afterwards.
fn data_of(guest: &mut Guest) -> Vec<u8> {
    let records = guest.device.freeze();
    let context = Context {
        mac: guest.mac(),
        records,
        pages: Vec::new(),
    };
    context.encode()
}

impl Vm {
    /// Has the guest of this number go on at a daemon.
    fn arrive(daemon: &Daemon, number: u8, guest: Guest, end: End, data: &[u8]) -> Self {
        let mut vmm = Vmm::connect(&daemon.socket(number));
        vmm.map(&guest.ram.fd().unwrap(), guest.ram.bytes());
        vmm.load(data).unwrap();
        Self { guest, end, vmm }
    }

    fn both(daemon: &Daemon) -> [Self; 2] {
        let [(mut a, a_end), (mut b, b_end)] = guests();
        let (a_data, b_data) = (data_of(&mut a), data_of(&mut b));
        let mut both = [
            Self::arrive(daemon, 1, a, a_end, &a_data),
            Self::arrive(daemon, 2, b, b_end, &b_data),
        ];
        for vm in &mut both {
            vm.vmm.set(State::Running).unwrap();
        }
        both
    }

    fn post(&mut self, work: &SendWork) {
        self.guest.post_send(&self.end.qp, work).unwrap();
        self.vmm.ring_send(&self.end.qp);
    }

    fn receive(&mut self, id: u64, offset: u64) {
        let sge = self.end.sge(offset, LENGTH);
        self.guest.post_recv(&self.end.qp, id, &[sge]).unwrap();
        self.vmm.ring_recv(&self.end.qp);
    }

    /// Waits for the next completion.
    fn await_completion(&mut self, queue: fn(&End) -> &Cq) -> Completion {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(completion) = self.guest.poll_cq(queue(&self.end)) {
                return completion;
            }
            assert!(Instant::now() < deadline, "no completion comes");
            std::thread::yield_now();
        }
    }

    fn await_sent(&mut self, id: u64) {
        let sent = self.await_completion(|end| &end.send_cq);
        assert_eq!((sent.id, sent.status), (id, 0));
    }

    fn await_received(&mut self, id: u64) {
        let received = self.await_completion(|end| &end.recv_cq);
        assert_eq!((received.id, received.status), (id, 0));
    }

    fn bytes(&self, offset: u64) -> Vec<u8> {
        let buffer = &self.end.buffer;
        buffer.read(&self.guest.ram, offset, LENGTH as usize)
    }

    fn fill(&self, offset: u64, seed: u8) {
        let bytes: Vec<u8> = (0..LENGTH).map(|at| (at as u8) ^ seed).collect();
        self.end.buffer.write(&self.guest.ram, offset, &bytes);
    }

    /// Returns the VM's memory by pages, without empty ones.
    fn memory(&self) -> BTreeMap<u64, Vec<u8>> {
        let pages = self.guest.save_ram().pages().into_iter();
        pages.map(|page| (page.address, page.bytes)).collect()
    }
}

/// Sends a message each way, one of them a WRITE; both arrive whole.
fn talk([a, b]: [&mut Vm; 2], id: u64) {
    let seed = id as u8;
    a.fill(0, seed);
    b.fill(0, !seed);
    b.receive(id, u64::from(LENGTH));
    a.post(&SendWork::send(id).sge(a.end.sge(0, LENGTH)));
    let (address, key) = a.end.remote(u64::from(LENGTH));
    b.post(&SendWork::write(id, address, key).sge(b.end.sge(0, LENGTH)));
    a.await_sent(id);
    b.await_received(id);
    b.await_sent(id);
    assert_eq!(b.bytes(u64::from(LENGTH)), a.bytes(0));
    assert_eq!(a.bytes(u64::from(LENGTH)), b.bytes(0));
}

#[track_caller]
fn refused(outcome: Result<Vec<u8>, Error>, expected: &str) {
    match outcome {
        Err(Error::Refused { sentence, .. }) => assert!(sentence.contains(expected), "{sentence}"),
        other => panic!("{other:?}"),
    }
}

/// Peers write to the VM while pages are logged and while it stands still, and nothing is lost.
#[test]
fn a_vm_goes_to_another_daemon_with_its_connections() {
    let [here, there] = free_ends();
    let source = tunnel([here, there]) + &adapters(&[(1, false), (2, false)]);
    let target = tunnel([there, here]) + &adapters(&[(1, true)]);
    let (source, mut target) = (Daemon::start("", &source), Daemon::start("", &target));
    let [mut a, mut b] = Vm::both(&source);
    talk([&mut a, &mut b], 1);

    let mut copied = written_while_logged(&mut a, &mut b);
    a.vmm.set(State::Stop).unwrap();
    let bytes = a.guest.ram.bytes();
    let end = a.memory();
    for page in a.vmm.written(bytes).unwrap() {
        copied.extend(end.get(&page).map(|bytes| (page, bytes.clone())));
    }
    assert!(copied == end, "the log has all that the device wrote");

    // A WRITE to a VM that stands still waits.
    b.fill(0, 0x77);
    let (address, key) = a.end.remote(u64::from(LENGTH));
    b.post(&SendWork::write(3, address, key).sge(b.end.sge(0, LENGTH)));
    a.vmm.set(State::StopCopy).unwrap();
    let data = a.vmm.read_data();

    let Vm { guest, end, vmm } = a;
    let moved = copy_of(guest, &data);
    let mut a = Vm::arrive(&target, 1, moved, end, &data);
    assert_eq!(target.state(1), "frozen");
    assert!(target.is_away(1));
    drop(vmm);
    source.await_away(1, true);
    a.vmm.set(State::Running).unwrap();
    target.await_away(1, false);
    target.await_line("its VM goes on here");
    b.await_sent(3);
    assert_eq!(a.bytes(u64::from(LENGTH)), b.bytes(0));
    a.await_received(2);
    for id in 4..8 {
        talk([&mut a, &mut b], id);
    }
    assert!(source.locations().contains("\"away\":true"));
    assert!(target.locations().contains("\"away\":false"));
}

/// Copies `a`'s memory when the log begins; afterwards only its device writes.
fn written_while_logged(a: &mut Vm, b: &mut Vm) -> BTreeMap<u64, Vec<u8>> {
    a.receive(2, 0);
    a.vmm.start_logging().unwrap();
    let copied = a.memory();
    b.fill(0, 0x33);
    b.post(&SendWork::send(2).sge(b.end.sge(0, LENGTH)));
    let (address, key) = a.end.remote(u64::from(LENGTH));
    b.post(&SendWork::write(3, address, key).sge(b.end.sge(0, LENGTH)));
    b.await_sent(2);
    b.await_sent(3);
    copied
}

/// Returns the guest with a copy of its memory. Its device stays frozen.
fn copy_of(mut guest: Guest, data: &[u8]) -> Guest {
    let context = Context::decode(data).unwrap();
    let mut moved = Guest::new(config(1), Clock::default()).unwrap();
    moved.arrive(&mut guest, &context).unwrap();
    moved.device.freeze();
    moved
}

#[test]
fn a_vm_that_stays_goes_on_where_it_stopped() {
    let daemon = Daemon::start("", &adapters(&[(1, false), (2, false)]));
    let [mut a, mut b] = Vm::both(&daemon);
    talk([&mut a, &mut b], 1);
    a.vmm.set(State::StopCopy).unwrap();
    assert_eq!(daemon.state(1), "frozen");
    let data = a.vmm.read_data();
    a.vmm.set(State::Running).unwrap();
    talk([&mut a, &mut b], 2);
    // The state to go on with elsewhere is a newer one now: the first data is from before the VM went on here.
    a.vmm.set(State::StopCopy).unwrap();
    assert_ne!(a.vmm.read_data(), data);
    a.vmm.set(State::Running).unwrap();
    drop(a.vmm);
    daemon.await_state(1, "reset");
    assert!(!daemon.is_away(1));
}

#[test]
fn only_a_device_that_nobody_uses_takes_the_state_of_its_own_kind() {
    let mut daemon = Daemon::start("", &adapters(&[(1, false), (2, false)]));
    let [(mut guest, _), (mut other, _)] = guests();
    let (data, foreign) = (data_of(&mut guest), data_of(&mut other));
    let mut vmm = Vmm::connect(&daemon.socket(1));
    vmm.map(&guest.ram.fd().unwrap(), guest.ram.bytes());
    let mut damaged = data.clone();
    damaged[100] ^= 1;
    for wrong in [&damaged[..], &foreign, &data[..data.len() - 1], b""] {
        assert_eq!(vmm.load(wrong), Err(Errno::INVAL));
        daemon.await_line("brought the state of no such adapter");
        assert_eq!(vmm.state(), State::Error);
        assert_eq!(vmm.set(State::Running), Err(Errno::INVAL));
        vmm.reset();
        assert_eq!(vmm.state(), State::Running);
        assert_eq!(daemon.state(1), "reset");
    }
    vmm.load(&data).unwrap();
    // The device has data already.
    assert_eq!(vmm.set(State::Resuming), Err(Errno::BUSY));
    vmm.set(State::Running).unwrap();
    assert_eq!(daemon.state(1), "active");
    assert_eq!(vmm.set(State::Resuming), Err(Errno::BUSY));
    assert_eq!(vmm.state(), State::Stop);
    vmm.set(State::Running).unwrap();
    assert_eq!(daemon.state(1), "active");
}

#[test]
fn who_has_begun_to_migrate_an_adapter_has_it() {
    const CLIENT: &str = "the VM's own client migrates the adapter";
    let daemon = Daemon::start("", &adapters(&[(1, false)]));
    let [(mut guest, _), _] = guests();
    let mut vmm = Vmm::connect(&daemon.socket(1));
    let bytes = guest.ram.bytes();
    vmm.map(&guest.ram.fd().unwrap(), bytes);
    vmm.load(&data_of(&mut guest)).unwrap();
    let one = name(1);
    for path in [paths::track(&one), paths::thaw(&one), paths::release(&one)] {
        refused(daemon.post(&path), CLIENT);
    }
    vmm.set(State::Running).unwrap();
    vmm.start_logging().unwrap();
    assert_eq!(vmm.start_logging(), Err(Errno::INVAL));
    refused(daemon.post(&paths::track(&one)), CLIENT);
    refused(daemon.post(&paths::resend(&one)), "is not tracked");
    // Memory that is unmapped takes its log with it.
    vmm.unmap(bytes);
    assert_eq!(vmm.written(bytes), Err(Errno::INVAL));
    vmm.map(&guest.ram.fd().unwrap(), bytes);
    daemon.post(&paths::track(&one)).unwrap();
    assert_eq!(vmm.start_logging(), Err(Errno::BUSY));
    assert_eq!(vmm.set(State::Stop), Err(Errno::BUSY));
    daemon.post(&paths::freeze(&one)).unwrap();
    assert_eq!(vmm.set(State::Stop), Err(Errno::BUSY));
    daemon.post(&paths::thaw(&one)).unwrap();
    vmm.set(State::Stop).unwrap();
    assert_eq!(daemon.state(1), "frozen");
}

/// After a crash of the worker, its client finds the device as it left it; the device's data ends with the worker.
#[test]
fn a_stopped_device_stands_still_for_the_next_worker() {
    let mut daemon = Daemon::start("supervise = true\n", &adapters(&[(1, false), (2, false)]));
    let [mut a, mut b] = Vm::both(&daemon);
    talk([&mut a, &mut b], 1);
    a.vmm.set(State::StopCopy).unwrap();
    daemon.kill_worker();
    assert_eq!(a.vmm.state(), State::Stop);
    assert_eq!(daemon.state(1), "frozen");
    assert_eq!(daemon.state(2), "active");
    a.vmm.set(State::Running).unwrap();
    talk([&mut a, &mut b], 2);
}
