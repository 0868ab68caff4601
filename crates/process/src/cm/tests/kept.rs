//! A service that goes on for another one, after any request.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, RawFd};

use vrdma_keep::{Area, Capacity, Inherited, Records};

use super::super::kept::Past;
use super::*;

const ROOM: Capacity = Capacity {
    small: 64,
    large: 512,
};

thread_local! {
    /// Whether services of this test are replaced after each request.
    static REPLACED: Cell<bool> = const { Cell::new(false) };
}

/// Starts to record a service, if the test wants that.
pub(super) fn begin(service: &mut Service) -> Option<OwnedFd> {
    REPLACED.get().then(|| {
        let area = Area::create(ROOM).unwrap();
        let (records, ..) = Records::open(area.as_fd(), |_| 0).unwrap();
        service.record_in(records);
        area
    })
}

/// Descriptors that stay open when a service's process is killed.
fn open(service: &Service) -> BTreeMap<RawFd, OwnedFd> {
    let mut open = BTreeMap::new();
    let mut add = |fd: BorrowedFd<'_>| {
        open.insert(fd.as_raw_fd(), fd.try_clone_to_owned().unwrap());
    };
    for client in service.clients.values() {
        add(client.socket.as_fd());
        for channel in client.channels.values() {
            add(channel.descriptor());
        }
        if let Some(answered) = &client.answered
            && let Ok(answer) = &answered.answer
        {
            answer.fds().iter().for_each(|fd| add(fd.as_fd()));
        }
    }
    open
}

impl World {
    /// Replaces the service by another one, which has only what was committed.
    pub(super) fn replace(&mut self) {
        let Some(area) = &self.area else { return };
        let mut open = Inherited::given(open(&self.service));
        let ports: Vec<PortId> = self.service.adapters.ports().collect();
        let adapters = ports
            .iter()
            .filter_map(|port| self.service.adapters.get(*port));
        let specs: Vec<AdapterSpec> = adapters.map(|adapter| adapter.spec.clone()).collect();
        // With the same seed, names would be those that peers remember.
        let seed = NUMBER.fetch_add(1, Relaxed);
        self.service = Service::new(self.registry.clone(), seed.into());
        let (records, found, damaged) = Records::open(area.as_fd(), |_| 0).unwrap();
        assert_eq!(damaged, 0);
        let mut past = Past::new(&found, &records);
        past.claim(&mut open);
        self.service.record_in(records);
        for spec in specs {
            self.service.attach(spec);
        }
        self.service.resume(past, self.now);
    }
}

fn replaced<R>(test: impl FnOnce() -> R) -> R {
    REPLACED.set(true);
    let result = test();
    REPLACED.set(false);
    result
}

#[test]
fn what_works_works_when_services_follow_each_other_after_each_request() {
    let tests: [fn(); 18] = [
        connecting::two_processes_connect_and_part,
        connecting::both_ends_may_be_on_one_adapter_and_called_by_the_loopback_address,
        connecting::datagram_services_are_resolved,
        connecting::nobody_listens_and_nobody_answers,
        connecting::a_process_that_dies_ends_its_connections_and_calls,
        connecting::a_listener_that_goes_takes_unseen_calls_along,
        clients::events_move_with_their_identifier,
        clients::groups_are_joined_at_once,
        clients::an_adapter_that_goes_is_told,
        addresses::ports_belong_to_one,
        addresses::the_loopback_address_is_bound_to_no_adapter_and_heard_at_all,
        addresses::who_listens_everywhere_listens_at_adapters_that_come,
        addresses::listeners_of_both_families_share_a_port,
        addresses::two_addresses_of_an_adapter_have_ports_of_their_own,
        addresses::a_port_of_all_adapters_is_one_of_each,
        addresses::of_those_that_share_a_port_one_listens,
        addresses::a_call_that_waits_finds_its_listener_again,
        costs::nothing_is_left_of_clients_that_are_gone,
    ];
    for test in tests {
        replaced(test);
    }
}

/// The earlier service may or may not have sent the datagram.
#[test]
fn a_datagram_is_sent_until_it_has_arrived() {
    let mut world = replaced(World::new);
    let (a, b) = (world.process("a"), world.process("b"));
    let (listener, port) = world.listen(&b, at(ip(2), 0), TCP.0, TCP.1);
    let caller = world.resolved(&a, at(ip(2), port), TCP.0, TCP.1);
    let parameters = parameters(0x11, b"hello");
    put(
        &a.socket,
        &Connect {
            id: caller,
            parameters,
        },
    );
    world.service.serve(a.id, world.now);
    answer::<Connect>(&a.socket).unwrap();
    for _ in 0..3 {
        world.replace();
        let (_, sent) = world.service.next_outgoing().expect("the call");
        assert_eq!(sent.ends.remote, Gid::from_ipv4(ip(2)));
    }
    world.replace();
    world.carry();
    assert!(world.service.next_outgoing().is_none());
    world.replace();
    assert!(world.service.next_outgoing().is_none(), "it has arrived");
    let called = world.event(&b);
    assert_eq!(
        (called.listener, called.kind),
        (listener, EventKind::ConnectRequest as u32)
    );
    world.silent(&b);
}

/// The earlier service has carried out the request and has not answered.
#[test]
fn a_request_that_is_found_again_is_answered_as_before() {
    let mut world = replaced(World::new);
    let a = world.process("a");
    let create = CreateId {
        channel: a.channel,
        space: TCP.0,
        qp_type: TCP.1,
    };
    let mut buffer = [0; PACKET_MAX];
    let packet = encode(Header::of::<CreateId>(7), &create, &mut buffer);
    let mut ids = Vec::new();
    for _ in 0..2 {
        send(a.socket.as_fd(), packet, &[], SendFlags::empty()).unwrap();
        world.replace();
        world.service.serve(a.id, world.now);
        ids.push(answer::<CreateId>(&a.socket).unwrap().0.id);
    }
    assert_eq!(ids[0], ids[1]);
    let identifiers = world
        .service
        .clients
        .values()
        .map(|it| it.identifiers.len());
    assert_eq!(identifiers.sum::<usize>(), 1);
}

/// A program that has read the announcement, and not asked yet, gets no further one.
#[test]
fn an_event_is_announced_once() {
    let mut world = replaced(World::new);
    let a = world.process("a");
    let id = world.id(&a, TCP.0, TCP.1);
    let resolve = ResolveAddress {
        id,
        remote: at(ip(2), 1),
        ..ResolveAddress::default()
    };
    world.ask(&a, &resolve).unwrap();
    assert_eq!(ioctl_fionread(&a.pipe), Ok(1));
    rustix::io::read(&a.pipe, &mut [0; 1]).unwrap();
    let channel = a.channel;
    put(&a.socket, &GetEvent { channel });
    world.replace();
    world.service.serve(a.id, world.now);
    let event = answer::<GetEvent>(&a.socket).unwrap().0;
    assert_eq!(
        (event.id, event.kind),
        (id, EventKind::AddressResolved as u32)
    );
    assert_eq!(ioctl_fionread(&a.pipe), Ok(0));
}

#[test]
fn an_identifier_whose_adapter_does_not_come_again_is_told_once() {
    let mut world = replaced(World::new);
    let (a, caller, b, child) = connected(&mut world);
    world.service.adapters.remove(PortId(0));
    world.replace();
    world.expect(&a, caller, EventKind::DeviceRemoval);
    world.replace();
    world.silent(&a);
    world.ask(&a, &DestroyId { id: caller }).unwrap();
    // The peer stays connected until it finds out.
    world.ask(&b, &Disconnect { id: child }).unwrap();
}

#[test]
fn connections_whose_records_are_lost_end() {
    let mut world = replaced(World::new);
    let (a, caller, b, child) = connected(&mut world);
    let area = world.area.as_ref().unwrap();
    let ended = std::mem::replace(&mut world.service, Service::new(world.registry.clone(), 3));
    let left = open(&ended);
    drop(ended);
    let (records, found, _) = Records::open(area.as_fd(), |_| 0).unwrap();
    // Kind 8: connections.
    let connections = found.iter().filter(|record| record.kind == 8);
    connections.for_each(|record| records.remove(record.slot));
    records.commit();
    drop(records);
    let (records, found, _) = Records::open(area.as_fd(), |_| 0).unwrap();
    let mut past = Past::new(&found, &records);
    past.claim(&mut Inherited::given(left));
    world.service.record_in(records);
    world.service.attach(spec(1, "a"));
    world.service.attach(spec(2, "b"));
    world.service.resume(past, world.now);
    world.expect(&a, caller, EventKind::Disconnected);
    world.expect(&b, child, EventKind::Disconnected);
    for (process, id) in [(&a, caller), (&b, child)] {
        world.ask(process, &DestroyId { id }).unwrap();
    }
}

#[test]
fn a_program_without_room_for_its_records_goes_on_until_the_end() {
    let mut world = replaced(World::new);
    let a = world.process("a");
    let (b, filler) = (world.process("b"), world.process("a"));
    let mut many = Vec::new();
    while world
        .service
        .clients
        .values()
        .all(|it| it.changes.is_recorded())
    {
        put(
            &filler.socket,
            &CreateId {
                channel: filler.channel,
                space: TCP.0,
                qp_type: TCP.1,
            },
        );
        world.service.serve(filler.id, world.now);
        many.push(answer::<CreateId>(&filler.socket).unwrap().0.id);
    }
    put(&filler.socket, &DestroyId { id: many[0] });
    world.service.serve(filler.id, world.now);
    answer::<DestroyId>(&filler.socket).unwrap();
    world.replace();
    assert!(world.service.socket(filler.id).is_none(), "it is let go");
    let (_, port) = world.listen(&b, at(ip(2), 0), TCP.0, TCP.1);
    world.resolved(&a, at(ip(2), port), TCP.0, TCP.1);
}
