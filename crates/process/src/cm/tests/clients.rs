//! Limits of what clients may ask for, and the end of their objects.

use super::*;

#[test]
pub(super) fn events_move_with_their_identifier() {
    let mut world = World::new();
    let a = world.process("a");
    put(&a.socket, &CreateChannel {});
    world.service.serve(a.id, world.now);
    let (IdReply { id: channel }, fds) = answer::<CreateChannel>(&a.socket).unwrap();
    let id = world.id(&a, TCP.0, TCP.1);
    let resolve = ResolveAddress {
        id,
        remote: at(ip(2), 1),
        ..ResolveAddress::default()
    };
    world.ask(&a, &resolve).unwrap();
    world.ask(&a, &Migrate { id, channel }).unwrap();
    assert_eq!(ioctl_fionread(&fds[0]), Ok(1));
    let event = world.ask(&a, &GetEvent { channel }).unwrap();
    assert_eq!((event.id, event.kind), (id, 0));
    let old = a.channel;
    assert_eq!(world.ask(&a, &GetEvent { channel: old }), Err(Errno::AGAIN));
    world.ask(&a, &DestroyChannel { channel: old }).unwrap();
    assert_eq!(world.ask(&a, &DestroyChannel { channel }), Err(Errno::BUSY));
}

#[test]
pub(super) fn groups_are_joined_at_once() {
    let mut world = World::new();
    let a = world.process("a");
    let group = at(Ipv4Addr::new(239, 1, 2, 3), 0);
    let id = world.id(&a, space::UDP, qp_type::UD);
    let join = Join {
        id,
        group,
        ..Join::default()
    };
    assert_eq!(world.ask(&a, &join), Err(Errno::INVAL), "no adapter yet");
    let resolve = ResolveAddress {
        id,
        remote: group,
        ..ResolveAddress::default()
    };
    world.ask(&a, &resolve).unwrap();
    world.expect(&a, id, EventKind::AddressResolved);
    let JoinReply { group } = world.ask(&a, &join).unwrap();
    let joined = world.expect(&a, id, EventKind::MulticastJoin);
    assert_eq!((joined.group, joined.parameters.qp_num), (group, 0xff_ffff));
    assert_eq!(joined.peer.dgid[12..], [239, 1, 2, 3]);
    world.leave(&a, group).unwrap();
    assert_eq!(world.leave(&a, group), Err(Errno::INVAL));
}

#[test]
pub(super) fn a_greeting_is_checked() {
    let mut world = World::new();
    assert_eq!(world.greet("c").err(), Some(Errno::NODEV));
    let process = world.process("a");
    put(&process.socket, &Greet::default());
    world.service.serve(process.id, world.now);
    assert_eq!(answer::<Greet>(&process.socket).err(), Some(Errno::NOSYS));
    send(process.socket.as_fd(), b"abc", &[], SendFlags::empty()).unwrap();
    world.service.serve(process.id, world.now);
    assert!(
        world.service.socket(process.id).is_none(),
        "garbage ends it"
    );
}

#[test]
pub(super) fn an_adapter_that_goes_is_told() {
    let mut world = World::new();
    let (a, caller, ..) = connected(&mut world);
    world.service.detach(PortId(0));
    world.expect(&a, caller, EventKind::DeviceRemoval);
    world.ask(&a, &DestroyId { id: caller }).unwrap();
}

#[test]
fn rule_p45_strange_numbers_are_refused() {
    let mut world = World::new();
    let a = world.process("a");
    let id = 12345;
    assert_eq!(world.ask(&a, &Disconnect { id }), Err(Errno::INVAL));
    assert_eq!(world.ask(&a, &DestroyId { id }), Err(Errno::INVAL));
    let channel = a.channel;
    let create = |channel, space, qp_type| CreateId {
        channel,
        space,
        qp_type,
    };
    assert_eq!(world.ask(&a, &create(77, TCP.0, TCP.1)), Err(Errno::INVAL));
    assert_eq!(
        world.ask(&a, &create(channel, 3, TCP.1)),
        Err(Errno::PROTONOSUPPORT)
    );
    assert_eq!(
        world.ask(&a, &create(channel, TCP.0, 99)),
        Err(Errno::INVAL)
    );
    let id = world.id(&a, TCP.0, TCP.1);
    let parameters = parameters(1, b"");
    assert_eq!(
        world.ask(&a, &Connect { id, parameters }),
        Err(Errno::INVAL)
    );
    assert_eq!(world.ask(&a, &Accept { id, parameters }), Err(Errno::INVAL));
    let no_family = Endpoint::default();
    assert_eq!(
        world.ask(
            &a,
            &Bind {
                id,
                local: no_family
            }
        ),
        Err(Errno::AFNOSUPPORT)
    );
}
