use vrdma_wire::Qkey;
use vrdma_wire::cm::SidrStatus;

use super::*;
use crate::{Refused, Resolution, Resolve, SidrAnswer};

const UDP: ServiceId = ServiceId::of_port(PortSpace::Udp, 7174);

fn ask(world: &mut World) -> CommId {
    let caller = IpCaller {
        port: 40001,
        source: world.gids[0],
        destination: world.gids[1],
    };
    let resolve = Resolve {
        ends: Ends {
            local: world.gids[0],
            remote: world.gids[1],
        },
        service: UDP,
        private: caller.resolve_data(b"who?").unwrap(),
    };
    world.machines[0].resolve(&resolve, world.now).unwrap()
}

fn listen(world: &mut World) {
    let at = Listen {
        service: UDP,
        at: Addresses::All,
    };
    world.machines[1].listen(at, 4).unwrap();
}

fn asked(world: &mut World) -> CommId {
    match world.take(1)[..] {
        [Event::ResolveRequested(id, _, request)] => {
            assert_eq!(request.caller.unwrap().port, 40001);
            assert_eq!(&request.private.as_bytes()[..5], b"who?\0");
            id
        }
        ref others => panic!("{others:?}"),
    }
}

fn answer(world: &mut World, id: CommId, status: SidrStatus) {
    let answer = SidrAnswer {
        status,
        qpn: Qpn::new(0x33).unwrap(),
        qkey: Qkey(0x0123_4567),
        private: PrivateData::new(b"me").unwrap(),
    };
    let now = world.now;
    world.machines[1].answer(id, &answer, now).unwrap();
    assert_eq!(
        world.machines[1].answer(id, &answer, now),
        Err(Refused::State)
    );
}

#[test]
fn a_service_is_found() {
    let mut world = World::new();
    listen(&mut world);
    let a = ask(&mut world);
    world.deliver_all();
    let b = asked(&mut world);
    world.wait();
    assert_eq!(world.deliver_all(), ["SIDR_REQ"], "the owner still thinks");
    assert!(world.take(1).is_empty());
    answer(&mut world, b, SidrStatus::OK);
    assert_eq!(world.lose(), ["SIDR_REP"]);
    world.wait();
    assert_eq!(world.deliver_all(), ["SIDR_REQ", "SIDR_REP"]);
    let resolution = Resolution {
        qpn: Qpn::new(0x33).unwrap(),
        qkey: Qkey(0x0123_4567),
        private: PrivateData::new(b"me").unwrap(),
    };
    assert_eq!(world.take(0), [Event::Resolved(a, resolution)]);
    while world.wait() {}
    assert!(world.take(0).is_empty() && world.take(1).is_empty());
}

#[test]
fn a_service_is_not_there_or_says_no_or_is_silent() {
    let mut world = World::new();
    let a = ask(&mut world);
    world.deliver_all();
    let unsupported = Some(SidrStatus::UNSUPPORTED);
    assert_eq!(
        world.take(0),
        [Event::Unresolved(a, unsupported, PrivateData::EMPTY)]
    );

    listen(&mut world);
    let a = ask(&mut world);
    world.deliver_all();
    let b = asked(&mut world);
    world.machines[1].release(b, world.now);
    world.deliver_all();
    let rejected = Some(SidrStatus::REJECTED);
    assert_eq!(
        world.take(0),
        [Event::Unresolved(a, rejected, PrivateData::EMPTY)]
    );

    let a = ask(&mut world);
    let mut sent = world.lose().len();
    while world.wait() {
        sent += world.lose().len();
    }
    assert_eq!(sent, 16);
    assert_eq!(
        world.take(0),
        [Event::Unresolved(a, None, PrivateData::EMPTY)]
    );
}

#[test]
fn a_question_that_nobody_waits_for_any_more_is_dropped() {
    let mut world = World::new();
    let a = ask(&mut world);
    world.machines[0].release(a, world.now);
    world.lose();
    assert!(!world.wait());
}
