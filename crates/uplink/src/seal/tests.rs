use proptest::prelude::*;

use super::*;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn end(keys: &str) -> Sealing {
    Sealing::new(keys.parse().unwrap(), Channel::Roce).unwrap()
}

/// Opens a datagram at an end. Returns the result, and the frame.
fn open(end: &mut Sealing, datagram: &[u8], now: Instant) -> Result<(Opened, Vec<u8>), Loss> {
    let mut room = vec![0; datagram.len()];
    let opened = end.open(datagram, &mut room, now)?;
    if let Opened::Frame(bytes) = opened {
        room.truncate(bytes);
    }
    Ok((opened, room))
}

fn reply(end: &mut Sealing, datagram: &[u8], now: Instant) -> Vec<u8> {
    match open(end, datagram, now) {
        Ok((Opened::Reply(reply), _)) => reply,
        other => panic!("{other:?}"),
    }
}

/// Makes a session from one end to the other.
fn agree(from: &mut Sealing, to: &mut Sealing, now: Instant) {
    let call = from.tend(now).unwrap();
    let answer = reply(to, &call, now);
    let proof = reply(from, &answer, now);
    assert_eq!(open(to, &proof, now).unwrap().0, Opened::Nothing);
}

fn pair(now: Instant) -> (Sealing, Sealing) {
    let (mut from, mut to) = (end(KEY), end(KEY));
    agree(&mut from, &mut to, now);
    (from, to)
}

fn sealed(from: &Sealing, frame: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; frame.len() + OVERHEAD];
    assert!(from.sealer().unwrap().seal(frame, &mut datagram));
    datagram
}

fn frame(to: &mut Sealing, datagram: &[u8], now: Instant) -> Result<Vec<u8>, Loss> {
    open(to, datagram, now).map(|(_, frame)| frame)
}

#[test]
fn a_session_is_made_and_used() {
    let now = Instant::now();
    let (mut from, mut to) = pair(now);
    assert_eq!(from.tend(now), None, "it has what it wants");
    let datagram = sealed(&from, b"a frame");
    assert_eq!(channel(&datagram), Some(Channel::Roce));
    assert_eq!(frame(&mut to, &datagram, now), Ok(b"a frame".to_vec()));
    assert!(!datagram.windows(7).any(|it| it == b"a frame"));
    assert_ne!(sealed(&from, b"a frame")[LEN..], datagram[LEN..]);
    // The other direction has a session of its own.
    assert!(to.sealer().is_none());
    let later = now + ANSWERS_APART;
    agree(&mut to, &mut from, later);
    let datagram = sealed(&to, b"back");
    assert_eq!(frame(&mut from, &datagram, later), Ok(b"back".to_vec()));
    assert_eq!(frame(&mut to, &datagram, later), Err(Loss::NoSession));
}

const LEN: usize = header::LEN;

#[test]
fn another_key_opens_nothing() {
    let now = Instant::now();
    let (mut from, mut stranger) = (end(KEY), end(OTHER));
    let call = from.tend(now).unwrap();
    assert_eq!(open(&mut stranger, &call, now).unwrap_err(), Loss::WrongKey);
    let (whole, _) = pair(now);
    let datagram = sealed(&whole, b"a frame");
    assert_eq!(frame(&mut stranger, &datagram, now), Err(Loss::NoSession));
}

/// Calls that anybody can make do not take the thread's time.
#[test]
fn a_flood_of_wrong_calls_is_looked_at_now_and_then() {
    let (start, mut to) = (Instant::now(), end(KEY));
    let wrong = end(OTHER).tend(start).unwrap();
    let looked_at = (0..1000u32).filter(|number| {
        let now = start + *number * CALLS_LOOKED_AT_APART / 100;
        open(&mut to, &wrong, now).unwrap_err() == Loss::WrongKey
    });
    assert_eq!(looked_at.count(), 10);
}

#[test]
fn while_keys_are_changed_both_are_taken() {
    let now = Instant::now();
    let mut old = end(KEY);
    let mut both = end(&format!("{OTHER}\n{KEY}"));
    agree(&mut old, &mut both, now);
    let call = both.tend(now).unwrap();
    let taken = open(&mut old, &call, now);
    assert_eq!(
        taken.unwrap_err(),
        Loss::WrongKey,
        "it calls with the first"
    );
}

#[test]
fn nothing_is_taken_twice_and_order_does_not_matter() {
    let now = Instant::now();
    let (from, mut to) = pair(now);
    let datagrams: Vec<_> = (0..50u8).map(|number| sealed(&from, &[number])).collect();
    for number in (0..50u8).rev() {
        let datagram = &datagrams[usize::from(number)];
        assert_eq!(frame(&mut to, datagram, now), Ok(vec![number]));
    }
    for datagram in &datagrams {
        assert_eq!(frame(&mut to, datagram, now), Err(Loss::Replayed));
    }
}

/// An end that restarts takes nothing from before, though both its and the peer's messages were recorded.
#[test]
fn what_was_recorded_opens_nothing_after_a_restart() {
    let now = Instant::now();
    let (mut from, mut to) = (end(KEY), end(KEY));
    let call = from.tend(now).unwrap();
    let answer = reply(&mut to, &call, now);
    let proof = reply(&mut from, &answer, now);
    let datagram = sealed(&from, b"pay 10");
    let mut restarted = end(KEY);
    let _ = reply(&mut restarted, &call, now);
    for recorded in [&proof, &datagram] {
        let taken = frame(&mut restarted, recorded, now);
        assert_eq!(taken, Err(Loss::NoSession));
    }
    assert_eq!(open(&mut from, &answer, now).unwrap_err(), Loss::NoSession);
    assert_eq!(
        open(&mut restarted, &answer, now).unwrap_err(),
        Loss::NoSession
    );
}

/// A call that comes back to its sender does not make a session of it with itself.
#[test]
fn a_reflected_call_is_not_answered() {
    let now = Instant::now();
    let mut from = end(KEY);
    let call = from.tend(now).unwrap();
    assert_eq!(open(&mut from, &call, now).unwrap_err(), Loss::Forged);
}

/// Recorded calls displace neither a session in use nor, for long, one that is being made.
#[test]
fn recorded_calls_end_no_session() {
    let start = Instant::now();
    let (mut from, mut to) = pair(start);
    let recorded: Vec<_> = (0..20).map(|_| end(KEY).tend(start).unwrap()).collect();
    let mut now = start + ANSWERS_APART;
    let mut answers = 0;
    for call in recorded.iter().cycle().take(100) {
        answers += u32::from(open(&mut to, call, now).is_ok());
        now += ANSWERS_APART / 2;
    }
    assert_eq!(answers, 50, "at most one each {ANSWERS_APART:?}");
    assert!(to.incoming.len() <= PROVEN_MAX + UNPROVEN_MAX);
    let datagram = sealed(&from, b"still here");
    assert_eq!(frame(&mut to, &datagram, now), Ok(b"still here".to_vec()));
    now += SESSION_LASTS;
    agree(&mut from, &mut to, now);
    assert!(frame(&mut to, &sealed(&from, b"new"), now).is_ok());
}

#[test]
fn a_session_is_replaced_in_time_and_the_one_before_stays_for_what_is_under_way() {
    let mut now = Instant::now();
    let (mut from, mut to) = pair(now);
    let first = sealed(&from, b"first");
    let zeroth = sealed(&from, b"zeroth");
    now += SESSION_LASTS;
    agree(&mut from, &mut to, now);
    let second = sealed(&from, b"second");
    assert_eq!(frame(&mut to, &second, now), Ok(b"second".to_vec()));
    assert_eq!(frame(&mut to, &first, now), Ok(b"first".to_vec()));
    now += SESSION_LASTS;
    agree(&mut from, &mut to, now);
    assert_eq!(frame(&mut to, &zeroth, now), Err(Loss::NoSession));
}

#[test]
fn calls_are_repeated_and_any_answer_will_do() {
    let start = Instant::now();
    let (mut from, mut to) = (end(KEY), end(KEY));
    let call = from.tend(start).unwrap();
    assert_eq!(from.tend(start), None);
    let first = reply(&mut to, &call, start);
    let mut now = start + CALLS_APART;
    assert_eq!(from.tend(now), Some(call));
    let proof = reply(&mut from, &first, now);
    assert_eq!(open(&mut to, &proof, now).unwrap().0, Opened::Nothing);
    now += SESSION_LASTS;
    let call = from.tend(now).unwrap();
    now += CALL_LASTS;
    assert_ne!(from.tend(now).unwrap(), call, "made anew");
}

/// The peer that starts second has not received the other one's call.
#[test]
fn a_peer_that_calls_is_called_again_at_once() {
    let start = Instant::now();
    let (mut first, mut second) = (end(KEY), end(KEY));
    let lost = first.tend(start).unwrap();
    let now = start + CALLS_APART / 4;
    assert_eq!(first.tend(now), None);
    agree(&mut second, &mut first, now);
    assert_eq!(first.tend(now), Some(lost.clone()));
    assert_eq!(first.tend(now), None, "once");
    let answer = reply(&mut second, &lost, now);
    let proof = reply(&mut first, &answer, now);
    assert_eq!(open(&mut second, &proof, now).unwrap().0, Opened::Nothing);
    assert_eq!(first.tend(now), None, "it has what it wants");
}

/// The peer has forgotten the session: its call shows that.
#[test]
fn a_restarted_peer_is_called_at_once() {
    let mut now = Instant::now();
    let (mut from, _) = pair(now);
    let mut restarted = end(KEY);
    let lost = frame(&mut restarted, &sealed(&from, b"lost"), now);
    assert_eq!(lost, Err(Loss::NoSession));
    agree(&mut restarted, &mut from, now);
    agree(&mut from, &mut restarted, now);
    let datagram = sealed(&from, b"found");
    assert_eq!(frame(&mut restarted, &datagram, now), Ok(b"found".to_vec()));
    // A call of the same life is no reason.
    now += SESSION_LASTS / 2;
    restarted.stale = true;
    agree(&mut restarted, &mut from, now);
    assert_eq!(from.tend(now), None);
}

#[test]
fn ports_do_not_open_each_others() {
    let now = Instant::now();
    let mut from = end(KEY);
    let mut rest = Sealing::new(KEY.parse().unwrap(), Channel::Rest).unwrap();
    let mut call = from.tend(now).unwrap();
    assert_eq!(open(&mut rest, &call, now).unwrap_err(), Loss::Malformed);
    call[1] &= !FOR_ROCE;
    assert_eq!(open(&mut rest, &call, now).unwrap_err(), Loss::WrongKey);
}

#[test]
fn a_session_that_nobody_replaces_ends() {
    let now = Instant::now();
    let (from, _) = pair(now);
    let sealer = from.sealer().unwrap();
    sealer.counter.store(SESSION_FRAMES, Ordering::Relaxed);
    assert!(from.wants_session(now));
    let mut room = [0; OVERHEAD + 1];
    assert!(sealer.seal(&[1], &mut room));
    sealer.counter.store(SESSION_FRAMES_MAX, Ordering::Relaxed);
    assert!(!sealer.seal(&[1], &mut room));
}

proptest! {
    #[test]
    fn what_is_sealed_comes_back_and_what_is_changed_does_not(
        bytes in prop::collection::vec(any::<u8>(), 1..300),
        at: prop::sample::Index,
        bit in 0u8..8,
    ) {
        let now = Instant::now();
        let (from, mut to) = pair(now);
        let datagram = sealed(&from, &bytes);
        let mut tampered = datagram.clone();
        tampered[at.index(datagram.len())] ^= 1 << bit;
        // Two reserved bytes have no meaning.
        if !(2..4).contains(&at.index(datagram.len())) {
            prop_assert!(frame(&mut to, &tampered, now).is_err());
        }
        let cut = &datagram[..at.index(datagram.len())];
        prop_assert!(frame(&mut to, cut, now).is_err());
        prop_assert_eq!(frame(&mut to, &datagram, now), Ok(bytes));
    }

    /// Random input opens nothing, at any state of an end.
    #[test]
    fn nonsense_opens_nothing(
        kind in any::<u8>(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        calls in any::<bool>(),
    ) {
        let now = Instant::now();
        let (mut from, mut to) = pair(now);
        if calls {
            let _ = to.tend(now);
        }
        let datagram = [&[MARK, kind][..], &bytes].concat();
        for end in [&mut from, &mut to] {
            prop_assert!(open(end, &datagram, now + CALL_LASTS).is_err());
        }
    }
}
