use super::*;

const PORT: PortId = PortId(3);

fn gid(number: u32) -> Gid {
    Gid::from_ipv4(number.into())
}

fn peers(count: u32) -> Vec<Route> {
    let routes = (0..count).map(|number| Route {
        sgid: gid(1),
        dgid: gid(100 + number),
        ..Route::default()
    });
    routes.collect()
}

fn nonces() -> impl FnMut() -> u64 {
    let mut last = 0;
    move || {
        last += 7;
        last
    }
}

fn told(own: &mut Own, now: Time) -> Vec<(Route, Notice)> {
    let mut told = Vec::new();
    own.poll(now, |port, route, notice| {
        assert_eq!(port, PORT);
        told.push((route, notice));
    });
    told
}

fn answer(kind: NoticeKind, route: &Route, notice: Notice) -> Told {
    Told {
        port: PORT,
        local: route.sgid,
        remote: route.dgid,
        notice: Notice { kind, ..notice },
        from: None,
    }
}

#[test]
fn who_does_not_acknowledge_is_told_again_for_a_while() {
    let mut own = Own::default();
    let mut now = Time(0);
    own.pause(PORT, 5, peers(2), nonces(), now);
    let first = told(&mut own, now);
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(|(route, notice)| {
        (notice.kind, notice.epoch, notice.gid) == (NoticeKind::Pause, 5, route.sgid)
    }));
    let (route, notice) = first[0];
    for (kind, epoch) in [(NoticeKind::ResumeAck, 5), (NoticeKind::PauseAck, 4)] {
        own.acknowledge(&answer(kind, &route, Notice { epoch, ..notice }));
    }
    let forged = Notice { nonce: 1, ..notice };
    own.acknowledge(&answer(NoticeKind::PauseAck, &route, forged));
    now = own.next_deadline().unwrap();
    assert_eq!(told(&mut own, now), first, "none of these was the answer");
    own.acknowledge(&answer(NoticeKind::PauseAck, &route, notice));
    let mut rounds = 0;
    while let Some(next) = own.next_deadline() {
        assert!(next < Time(0) + PAUSE_REPEATED);
        now = next;
        assert_eq!(told(&mut own, now), first[1..]);
        rounds += 1;
    }
    assert!((1..5).contains(&rounds), "{rounds}");
    assert_eq!(told(&mut own, now + PAUSE_REPEATED), []);
}

#[test]
fn what_is_newer_takes_the_place_of_what_was_not_heard() {
    let mut own = Own::default();
    let now = Time(0);
    own.pause(PORT, 5, peers(1), nonces(), now);
    told(&mut own, now);
    own.resume(PORT, 6, peers(1), nonces(), now);
    let mut times = 0;
    let mut last = now;
    while let Some(next) = own.next_deadline() {
        assert!(next.since(last) <= RESUME_APART);
        last = next;
        let told = told(&mut own, next);
        assert_eq!((told[0].1.kind, told[0].1.epoch), (NoticeKind::Resume, 6));
        times += 1;
    }
    assert!(last.since(now) + RESUME_APART >= RESUME_REPEATED);
    assert!((20..50).contains(&times), "{times}");
    assert_eq!(own.forget(PORT), Some((6, vec![gid(1)])));
    assert_eq!(own.forget(PORT), None);
}

#[test]
fn many_peers_are_told_in_turns_and_too_many_are_not() {
    let mut own = Own::default();
    let now = Time(0);
    own.resume(PORT, 5, peers(2 * TOLD_MAX as u32), nonces(), now);
    let mut all = Vec::new();
    while own.next_deadline() == Some(now) {
        let some = told(&mut own, now);
        assert!(some.len() <= TOLD_A_TURN);
        // A peer that is told acknowledges at once: no other is left out because of it.
        if let Some((route, notice)) = some.first() {
            own.acknowledge(&answer(NoticeKind::ResumeAck, route, *notice));
        }
        all.extend(some);
    }
    let mut peers: Vec<Gid> = all.iter().map(|(route, _)| route.dgid).collect();
    peers.sort_unstable();
    peers.dedup();
    assert_eq!((peers.len(), all.len()), (TOLD_MAX, TOLD_MAX));
}

#[test]
fn who_sends_all_the_same_is_reminded_now_and_then() {
    let mut own = Own::default();
    let mut now = Time(0);
    own.resume(PORT, 4, peers(1), nonces(), now);
    assert!(!own.has_still() && own.remind(PORT, now).is_none());
    own.pause(PORT, 5, peers(1), nonces(), now);
    assert!(own.has_still());
    assert_eq!(own.remind(PortId(4), now), None);
    for _ in 0..2 {
        let reminded = (0..1000).filter(|_| own.remind(PORT, now) == Some(5));
        assert_eq!(reminded.count(), REMINDED_AT_ONCE);
        now = now + REMINDED_APART;
    }
    own.resume(PORT, 6, peers(1), nonces(), now);
    assert!(!own.has_still() && own.remind(PORT, now).is_none());
}

#[test]
fn one_without_peers_has_nothing_to_tell() {
    let mut own = Own::default();
    own.pause(PORT, 5, Vec::new(), nonces(), Time(0));
    assert_eq!(told(&mut own, Time(0)), []);
    assert_eq!(own.next_deadline(), None);
}
