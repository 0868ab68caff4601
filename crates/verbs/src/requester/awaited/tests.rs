use super::*;

fn psn(value: u32) -> Psn {
    Psn::new(value)
}

fn holes(awaiting: &Awaiting) -> alloc::vec::Vec<(u32, u32, bool)> {
    let holes = awaiting.requests.iter().flat_map(|r| &r.missing);
    holes
        .map(|hole| (hole.begin.get(), hole.end.get(), hole.lost))
        .collect()
}

#[test]
fn what_was_overtaken_is_lost_and_asked_for_alone() {
    let mut awaiting = Awaiting::default();
    awaiting.push(psn(10), psn(20));
    awaiting.take(psn(10), psn(11));
    assert!(!awaiting.has_lost());
    awaiting.take(psn(13), psn(14));
    assert_eq!(holes(&awaiting), [(11, 13, true), (14, 20, false)]);
    assert_eq!(awaiting.first_lost().unwrap().begin, psn(11));
    awaiting.asked_again(psn(11), psn(30));
    assert_eq!(awaiting.first_lost(), None);
    awaiting.pass(psn(29));
    assert_eq!(holes(&awaiting), [(11, 13, false), (14, 20, true)]);
    awaiting.pass(psn(30));
    assert_eq!(holes(&awaiting), [(11, 13, true), (14, 20, true)]);
}

#[test]
fn a_finished_request_waits_for_those_before() {
    let mut awaiting = Awaiting::default();
    awaiting.push(psn(0), psn(2));
    awaiting.push(psn(2), psn(3));
    awaiting.take(psn(2), psn(3));
    assert_eq!(
        (awaiting.len(), awaiting.first_missing()),
        (2, Some(psn(0)))
    );
    awaiting.take(psn(0), psn(2));
    assert!(awaiting.is_empty());
}

#[test]
fn going_back_forgets_what_will_be_sent_anew() {
    let mut awaiting = Awaiting::default();
    awaiting.push(psn(0), psn(8));
    awaiting.push(psn(8), psn(9));
    awaiting.take(psn(2), psn(4));
    awaiting.forget_from(psn(4));
    assert_eq!(holes(&awaiting), [(0, 2, true)]);
    assert_eq!(awaiting.len(), 1);
}

#[test]
fn holes_of_one_request_are_few() {
    let mut awaiting = Awaiting::default();
    awaiting.push(psn(0), psn(1000));
    for at in 1..500 {
        let (begin, end) = (psn(2 * at), psn(2 * at + 1));
        if awaiting.takes(&awaiting.hole_at(begin).unwrap(), begin, end) {
            awaiting.take(begin, end);
        }
    }
    assert_eq!(holes(&awaiting).len(), HOLES_MAX);
    assert!(awaiting.takes(&awaiting.hole_at(psn(0)).unwrap(), psn(0), psn(1)));
}
