//! Whatever is lost, doubled or overtaken, and whichever machine is replaced, both sides agree in the end.

use proptest::prelude::*;

use super::*;

/// The fate of one datagram.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    Twice,
    Late,
    /// It arrives, and another machine replaces the one of that side.
    Replaced(usize),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Arrives),
        2 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Late),
        2 => (0usize..2).prop_map(Fate::Replaced),
    ]
}

struct Run {
    world: World,
    a: Option<CommId>,
    b: Option<CommId>,
    fates: VecDeque<Fate>,
    ends: [u32; 2],
    established: [u32; 2],
}

impl Run {
    /// Handles one datagram, or waits if there is none; `false` at the end.
    fn step(&mut self) -> bool {
        self.world.collect();
        let Some(datagram) = self.world.queue.pop_front() else {
            return self.world.wait();
        };
        match self.fates.pop_front().unwrap_or(Fate::Arrives) {
            Fate::Arrives => self.world.deliver(&datagram),
            Fate::Lost => {}
            Fate::Twice => {
                self.world.deliver(&datagram);
                self.world.deliver(&datagram);
            }
            Fate::Late => self.world.queue.push_back(datagram),
            Fate::Replaced(side) => {
                self.world.deliver(&datagram);
                self.react();
                self.world.replace(side);
            }
        }
        true
    }

    fn react(&mut self) {
        for event in self.world.take(0) {
            match event {
                Event::Replied(id, _) => {
                    self.world.machines[0]
                        .ready(id, PrivateData::EMPTY)
                        .unwrap();
                    self.established[0] += 1;
                }
                Event::Disconnected(_) => self.ends[0] += 1,
                Event::TimewaitOver(_) => self.a = None,
                Event::Rejected(..) | Event::Unreachable(_) => self.a = None,
                other => panic!("{other:?}"),
            }
        }
        for event in self.world.take(1) {
            match event {
                Event::Requested(id, ..) => {
                    self.b = Some(id);
                    self.world.accept(id, 0x22);
                }
                Event::Established(..) => self.established[1] += 1,
                Event::Disconnected(_) => self.ends[1] += 1,
                Event::TimewaitOver(_) => self.b = None,
                Event::Rejected(..) | Event::Unreachable(_) => self.b = None,
                other => panic!("{other:?}"),
            }
        }
    }
}

proptest! {
    #[test]
    fn two_sides_connect_once_and_part_once(
        fates in prop::collection::vec(fate(), 0..60),
        first in 0usize..3,
    ) {
        let mut world = World::new();
        world.listen(1, 4);
        let a = world.call(0x11);
        let mut run = Run {
            world,
            a: Some(a),
            b: None,
            fates: fates.into(),
            ends: [0; 2],
            established: [0; 2],
        };
        while run.step() {
            run.react();
            if run.established == [1, 1] && run.ends == [0, 0] {
                let now = run.world.now;
                if first != 1 {
                    run.world.machines[0].disconnect(a, now).unwrap();
                }
                if first != 0 {
                    run.world.machines[1].disconnect(run.b.unwrap(), now).unwrap();
                }
            }
        }
        run.react();
        prop_assert!(run.established[0] <= 1 && run.established[1] <= 1);
        prop_assert!(run.ends[0] <= 1 && run.ends[1] <= 1);
        prop_assert_eq!(run.ends, run.established, "who connected was told of the end");
        prop_assert_eq!((run.a, run.b), (None, None), "nothing is left");
        prop_assert!(run.world.machines.iter().all(|machine| machine.deadline().is_none()));
    }

    #[test]
    fn any_bytes_are_survived(
        datagrams in prop::collection::vec((0usize..16, prop::collection::vec(any::<u8>(), 256)), 0..40),
    ) {
        let (mut world, ..) = World::connected();
        world.machines[0].listen(Listen { service: ServiceId(0), at: Addresses::All }, 3).unwrap();
        for (kind, mut bytes) in datagrams {
            let header = [1, 7, 2, 3];
            bytes[..4].copy_from_slice(&header);
            bytes[16] = 0;
            bytes[17] = 0x10 + kind as u8;
            if bytes[30] & 1 == 0 {
                bytes[24..56].fill(0);
            }
            let received = Received {
                ends: Ends { local: world.gids[0], remote: world.gids[1] },
                qpn: Qpn::GSI,
                pkey: Pkey::DEFAULT,
                bytes: &bytes,
            };
            world.machines[0].receive(&received, world.now);
            world.deliver_all();
        }
        for _ in 0..2000 {
            if !world.wait() {
                break;
            }
            world.lose();
        }
    }
}
