use super::*;
use crate::segment::Segment;
use proptest::prelude::*;

const HOP: Hop = Hop::to(Segment::Vni(1));

/// Sends numbered frames a microsecond apart. Returns the frames that came out, with the time of each.
fn run(text: &str, frames: u32) -> Vec<(u64, Vec<u8>)> {
    let mut faults = Faults::new(text.parse().unwrap());
    let mut out = Vec::new();
    for number in 0..frames {
        let now = u64::from(number) * 1000;
        faults.release(now, &mut |_, frame| out.push((now, frame.to_vec())));
        let frame = number.to_be_bytes();
        faults.send(now, HOP, &frame, &mut |_, frame| {
            out.push((now, frame.to_vec()))
        });
    }
    while let Some(due) = faults.next_deadline() {
        faults.release(due, &mut |_, frame| out.push((due, frame.to_vec())));
    }
    out
}

fn numbers(out: &[(u64, Vec<u8>)]) -> Vec<u32> {
    out.iter()
        .map(|(_, frame)| u32::from_be_bytes(frame[..].try_into().unwrap()))
        .collect()
}

#[test]
fn a_good_link_changes_nothing() {
    let out = run("", 100);
    assert_eq!(numbers(&out), (0..100).collect::<Vec<_>>());
    assert!(
        out.iter().all(|(at, frame)| *at
            == u64::from(u32::from_be_bytes(frame[..].try_into().unwrap())) * 1000)
    );
}

#[test]
fn shares_are_about_right() {
    let lost = 20_000 - run("loss=5%,seed=3", 20_000).len();
    assert!((800..1200).contains(&lost), "{lost}");
    let doubled = run("duplicate=10%,seed=3", 20_000).len() - 20_000;
    assert!((1800..2200).contains(&doubled), "{doubled}");
    let out = run("corrupt=10%", 20_000);
    let turned = numbers(&out)
        .into_iter()
        .enumerate()
        .filter(|(at, number)| *at as u32 != *number);
    assert!((1800..2200).contains(&turned.count()));
    assert!(run("loss=100%", 100).is_empty());
}

#[test]
fn delay_keeps_order_and_reordering_does_not() {
    let out = run("delay=1ms", 100);
    assert_eq!(numbers(&out), (0..100).collect::<Vec<_>>());
    assert_eq!(out[0].0, 1_000_000);
    let mut shuffled = numbers(&run("reorder=10%,seed=9", 1000));
    assert!(!shuffled.is_sorted());
    shuffled.sort_unstable();
    assert_eq!(shuffled, (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_seed_replays_the_link() {
    let text = |seed| format!("loss=3%,duplicate=3%,corrupt=3%,reorder=3%,jitter=50us,seed={seed}");
    assert_eq!(run(&text(7), 500), run(&text(7), 500));
    assert_ne!(run(&text(7), 500), run(&text(8), 500));
}

#[test]
fn what_is_held_has_a_bound() {
    let mut faults = Faults::new("delay=10s".parse().unwrap());
    for _ in 0..HELD_MAX + 5 {
        faults.send(0, HOP, &[0], &mut |_, _| panic!("too early"));
    }
    assert_eq!((faults.held.len(), faults.lost()), (HELD_MAX, 5));
}

#[test]
fn texts_are_read_exactly() {
    let spec: FaultSpec =
        "loss=1%, delay=1ms,reorder=0.5%,corrupt=0.0001%,duplicate=100%,jitter=20us,seed=7"
            .parse()
            .unwrap();
    let share = Probability;
    let expected = FaultSpec {
        loss: share(10_000),
        duplicate: Probability::ALWAYS,
        corrupt: share(1),
        reorder: share(5000),
        delay_ns: 1_000_000,
        jitter_ns: 20_000,
        seed: 7,
    };
    assert_eq!(spec, expected);
    assert!("seed=9".parse::<FaultSpec>().unwrap().is_none() && !spec.is_none());
}

#[test]
fn bad_texts_get_a_sentence() {
    for (text, part) in [
        ("lost=1%", "`lost` is no fault"),
        ("loss", "`loss` is no fault"),
        ("loss=1%,loss=2%", "said twice"),
        ("loss=1", "percentage"),
        ("loss=101%", "percentage"),
        ("loss=100.0001%", "percentage"),
        ("loss=-1%", "percentage"),
        ("loss=0.00001%", "percentage"),
        ("loss=.5%", "percentage"),
        ("delay=1", "a time"),
        ("delay=11s", "a time"),
        ("delay=1.5ms", "a time"),
        ("delay=99999999999999999999s", "a time"),
        ("seed=-1", "a seed"),
    ] {
        let error = text.parse::<FaultSpec>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        let _ = text.parse::<FaultSpec>();
    }

    #[test]
    fn what_is_shown_reads_back(loss in 0u32..=1_000_000, delay_ns in 0u64..10_000_000_000, seed: u64) {
        let spec = FaultSpec { loss: Probability(loss), delay_ns, seed, ..FaultSpec::default() };
        prop_assert_eq!(spec.to_string().parse::<FaultSpec>(), Ok(spec));
    }
}
