use std::time::Duration;

use proptest::prelude::*;

use super::*;

const PORT: PortId = PortId(3);

fn gid(number: u32) -> Gid {
    Gid::from_ipv4(number.into())
}

fn heard(kind: NoticeKind, epoch: u64, nonce: u64) -> Told {
    Told {
        port: PORT,
        local: gid(1),
        remote: gid(2),
        notice: Notice {
            kind,
            gid: gid(2),
            epoch,
            nonce,
        },
        from: None,
    }
}

/// The peers of one adapter, and a clock.
#[derive(Default)]
struct World {
    remotes: Remotes,
    now: Time,
    nonces: u64,
}

impl World {
    fn hear(&mut self, kind: NoticeKind, epoch: u64, nonce: u64) -> Verdict {
        let verdict = self
            .remotes
            .hear(&heard(kind, epoch, nonce), true, self.now);
        self.check();
        verdict
    }

    fn pass(&mut self, time: Duration) -> Vec<Due> {
        self.now = self.now + time;
        let nonces = &mut self.nonces;
        let mut nonce = || {
            *nonces += 1;
            *nonces
        };
        let due: Vec<Due> =
            std::iter::from_fn(|| self.remotes.poll(self.now, &mut nonce)).collect();
        self.check();
        due
    }

    /// Checks that each peer has one timer, at its time.
    fn check(&self) {
        let all = self.remotes.of_port.iter().flat_map(|(port, remotes)| {
            let of_port = remotes.iter();
            of_port.map(|(gid, it)| {
                let pair = Pair {
                    port: *port,
                    remote: *gid,
                };
                (it.due, pair)
            })
        });
        let expected: BTreeSet<_> = all.collect();
        assert_eq!(self.remotes.timers, expected);
    }

    /// Returns the nonce of the question that is due.
    fn asked(&mut self, time: Duration) -> u64 {
        match self.pass(time)[..] {
            [Due::Ask { local, notice, .. }] => {
                assert_eq!((local, notice.gid), (gid(1), gid(2)));
                assert_eq!(notice.kind, NoticeKind::Probe);
                notice.nonce
            }
            ref other => panic!("{other:?}"),
        }
    }
}

const PAUSES: Verdict = Verdict {
    effect: Some(Effect::Pause),
    answer: Some(NoticeKind::PauseAck),
    place: PeerLocation::Unchanged,
};

const RESUMES: Verdict = Verdict {
    effect: Some(Effect::Resume),
    answer: Some(NoticeKind::ResumeAck),
    place: PeerLocation::There,
};

fn only(answer: NoticeKind) -> Verdict {
    Verdict {
        answer: Some(answer),
        ..Verdict::default()
    }
}

#[test]
fn a_pause_ends_with_what_is_newer() {
    let mut world = World::default();
    assert_eq!(world.hear(NoticeKind::Pause, 5, 1), PAUSES);
    let again = world.hear(NoticeKind::Pause, 5, 1);
    assert_eq!(
        again,
        only(NoticeKind::PauseAck),
        "the first answer was lost"
    );
    assert_eq!(world.hear(NoticeKind::Resume, 4, 1), Verdict::default());
    assert_eq!(world.hear(NoticeKind::Resume, 5, 1), Verdict::default());
    assert_eq!(world.hear(NoticeKind::Resume, 6, 2), RESUMES);
    let again = world.hear(NoticeKind::Resume, 6, 2);
    assert_eq!(again, only(NoticeKind::ResumeAck));
    assert_eq!(world.pass(GUARD), []);
}

#[test]
fn what_is_late_or_played_again_changes_nothing() {
    let mut world = World::default();
    assert_eq!(world.hear(NoticeKind::Resume, 6, 2), RESUMES);
    world.pass(PAUSES_APART);
    for epoch in [5, 6] {
        let late = world.hear(NoticeKind::Pause, epoch, 1);
        assert_eq!(late, Verdict::default());
    }
    assert_eq!(world.hear(NoticeKind::Alive, 9, 1), Verdict::default());
    assert_eq!(world.hear(NoticeKind::Moved, 9, 1), Verdict::default());
    assert_eq!(world.hear(NoticeKind::Pause, 7, 3), PAUSES);
    assert_eq!(world.hear(NoticeKind::Resume, 8, 4), RESUMES);
    assert_eq!(world.hear(NoticeKind::Pause, 7, 3), Verdict::default());
}

#[test]
fn one_epoch_pauses_once_and_not_for_ever() {
    let mut world = World::default();
    world.hear(NoticeKind::Pause, 5, 1000);
    let began = world.now;
    let mut given_up = false;
    while !given_up {
        // The peer says it again and again, and never answers.
        world.hear(NoticeKind::Pause, 5, 1000);
        let due = world.pass(Duration::from_millis(50));
        given_up = due.iter().any(|it| matches!(it, Due::GiveUp(_)));
        assert!(world.now.since(began) <= PAUSE_MAX);
    }
    assert_eq!(world.now.since(began), PAUSE_MAX);
    world.pass(PAUSES_APART);
    assert_eq!(world.hear(NoticeKind::Pause, 5, 1000), Verdict::default());
}

/// Otherwise a peer that says it with newer and newer epochs would hold connections up forever.
#[test]
fn who_was_given_up_makes_nobody_wait_for_a_while() {
    let mut world = World::default();
    world.hear(NoticeKind::Pause, 5, 1000);
    let began = world.now;
    while !matches!(world.pass(GUARD)[..], [Due::GiveUp(_)]) {}
    let given_up = world.now;
    assert_eq!(given_up.since(began), PAUSE_MAX);
    let mut epoch = 5;
    while world.now < given_up + REMEMBERED {
        epoch += 1;
        let verdict = world.hear(NoticeKind::Pause, epoch, 1000);
        assert_eq!(verdict, Verdict::default());
        world.pass(GUARD);
    }
    assert_eq!(world.hear(NoticeKind::Pause, epoch + 1, 1000), PAUSES);
}

#[test]
fn who_was_given_up_is_heard_when_it_goes_on() {
    let mut world = World::default();
    world.hear(NoticeKind::Pause, 5, 1000);
    while !matches!(world.pass(GUARD)[..], [Due::GiveUp(_)]) {}
    assert_eq!(world.hear(NoticeKind::Resume, 6, 1), RESUMES);
}

#[test]
fn who_is_asked_and_answers_is_waited_for() {
    let mut world = World::default();
    world.hear(NoticeKind::Pause, 5, 1);
    let began = world.now;
    while world.now.since(began) < 2 * PAUSE_MAX {
        let nonce = world.asked(GUARD);
        let wrong = world.hear(NoticeKind::Pause, 5, nonce + 1);
        assert_eq!(wrong, only(NoticeKind::PauseAck));
        let renewed = world.hear(NoticeKind::Pause, 5, nonce);
        assert_eq!(renewed, only(NoticeKind::PauseAck));
    }
    let nonce = world.asked(GUARD);
    let stale = world.hear(NoticeKind::Alive, 4, nonce);
    assert_eq!(stale, Verdict::default(), "of one that is no more");
    let alive = world.hear(NoticeKind::Alive, 5, nonce);
    let expected = Verdict {
        answer: None,
        ..RESUMES
    };
    assert_eq!(alive, expected);
    assert_eq!(world.hear(NoticeKind::Alive, 5, nonce), Verdict::default());
    // At last the peer is not waited for.
    world.pass(PAUSES_APART);
    world.hear(NoticeKind::Pause, 6, 1);
    let began = world.now;
    loop {
        match world.pass(GUARD)[..] {
            [Due::Ask { notice, .. }] => {
                world.hear(NoticeKind::Pause, 6, notice.nonce);
            }
            [Due::GiveUp(_)] => break,
            ref other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.now.since(began), PAUSE_LONGEST);
}

#[test]
fn who_has_moved_is_asked_where_it_is_found() {
    let mut world = World::default();
    world.hear(NoticeKind::Pause, 5, 1);
    let first = world.asked(GUARD);
    let moved = world.hear(NoticeKind::Moved, 5, first);
    let expected = Verdict {
        place: PeerLocation::Elsewhere,
        ..Verdict::default()
    };
    assert_eq!(moved, expected);
    let wrong = world.hear(NoticeKind::Moved, 5, first + 1);
    assert_eq!(wrong, Verdict::default());
    // The answer to the first question also answers the second.
    assert_eq!(world.asked(MOVED_ASK_AGAIN), first);
    let alive = world.hear(NoticeKind::Alive, 6, first);
    assert_eq!(alive.effect, Some(Effect::Resume));
    assert_eq!(world.hear(NoticeKind::Moved, 5, first), Verdict::default());
}

/// A peer that freezes and goes on without end.
#[test]
fn pauses_are_apart() {
    let mut world = World::default();
    for epoch in (1..9).step_by(2) {
        assert_eq!(world.hear(NoticeKind::Pause, epoch, 0), PAUSES);
        assert_eq!(world.hear(NoticeKind::Resume, epoch + 1, 0), RESUMES);
        let soon = world.hear(NoticeKind::Pause, epoch + 2, 0);
        assert_eq!(soon, Verdict::default());
        world.pass(PAUSES_APART);
    }
}

/// Each such notice would make connections send again what is on its way.
#[test]
fn so_are_those_that_go_on_and_did_not_stand_still() {
    let mut world = World::default();
    for epoch in (1..9).step_by(2) {
        assert_eq!(world.hear(NoticeKind::Resume, epoch, 0), RESUMES);
        let soon = world.hear(NoticeKind::Resume, epoch + 1, 0);
        let expected = Verdict {
            effect: None,
            ..RESUMES
        };
        assert_eq!(soon, expected);
        world.pass(PAUSES_APART);
    }
}

#[test]
fn strangers_and_those_beyond_the_table_are_not_remembered() {
    let mut remotes = Remotes::default();
    let now = Time(0);
    let stranger = heard(NoticeKind::Pause, 5, 1);
    let verdict = remotes.hear(&stranger, false, now);
    assert_eq!(verdict, only(NoticeKind::PauseAck));
    assert_eq!(remotes.next_deadline(), None);
    let mut paused = 0;
    for number in 0..2 * REMOTES_OF_PORT as u32 {
        let peer = Told {
            remote: gid(100 + number),
            ..stranger
        };
        paused += usize::from(remotes.hear(&peer, true, now).effect.is_some());
    }
    assert_eq!(
        (paused, remotes.timers.len()),
        (REMOTES_OF_PORT, REMOTES_OF_PORT)
    );
    assert_eq!(remotes.forget(PORT).len(), REMOTES_OF_PORT);
    assert_eq!(remotes.next_deadline(), None);
}

#[test]
fn who_says_nothing_is_forgotten() {
    let mut world = World::default();
    world.hear(NoticeKind::Resume, 5, 1);
    assert_eq!(world.pass(REMEMBERED), []);
    assert_eq!(world.remotes.next_deadline(), None);
    assert!(world.remotes.of_port.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Hear(NoticeKind, u64, Option<u64>),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop::sample::select(NoticeKind::ALL.to_vec());
    let hear = (kind, 0u64..12, prop::option::of(0u64..20))
        .prop_map(|(kind, epoch, nonce)| Step::Hear(kind, epoch, nonce));
    let pass = (0u64..600).prop_map(Step::Pass);
    prop::collection::vec(prop_oneof![3 => hear, 2 => pass], 0..200)
}

proptest! {
    /// Whatever comes in whatever order: effects alternate as they must, epochs never go back, a pause has an end, and
    /// no epoch pauses twice.
    #[test]
    fn no_order_of_notices_breaks_a_promise(steps in steps()) {
        let mut world = World::default();
        let mut paused: Option<(u64, Time)> = None;
        let mut last_pause = None;
        let mut asked = 0;
        for step in steps {
            match step {
                Step::Hear(kind, epoch, guess) => {
                    let before = world.remotes.get_mut(pair()).map_or(0, |it| it.epoch);
                    let verdict = world.hear(kind, epoch, guess.unwrap_or(asked));
                    let after = world.remotes.get_mut(pair()).map_or(0, |it| it.epoch);
                    prop_assert!(before <= after);
                    match verdict.effect {
                        Some(Effect::Pause) => {
                            prop_assert!(paused.is_none() && epoch > before);
                            prop_assert!(last_pause.is_none_or(|last| epoch > last));
                            paused = Some((epoch, world.now));
                            last_pause = Some(epoch);
                        }
                        Some(Effect::Resume) => {
                            prop_assert!(epoch >= before);
                            paused = None;
                        }
                        None => {}
                    }
                }
                Step::Pass(milliseconds) => {
                    for due in world.pass(Duration::from_millis(milliseconds)) {
                        match due {
                            Due::Ask { notice, .. } => {
                                prop_assert!(paused.is_some());
                                asked = notice.nonce;
                            }
                            Due::GiveUp(_) => prop_assert!(paused.take().is_some()),
                        }
                    }
                }
            }
            let is_ok = world.remotes.get_mut(pair()).is_none_or(|it| it.state == State::Ok);
            prop_assert_eq!(paused.is_none(), is_ok);
            if let Some((_, since)) = paused {
                let late = Duration::from_millis(600);
                prop_assert!(world.now.since(since) < PAUSE_LONGEST + late);
            }
        }
        // Then nothing more is said.
        world.pass(PAUSE_MAX);
        world.pass(PAUSE_MAX);
        let left = world.remotes.get_mut(pair()).map(|it| it.state);
        prop_assert!(left.is_none_or(|state| state == State::Ok));
    }
}

fn pair() -> Pair {
    Pair {
        port: PORT,
        remote: gid(2),
    }
}
