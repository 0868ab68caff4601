use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::work::{Status, WcOp};

#[derive(Clone, Debug)]
enum Step {
    Say(u32),
    Recall(u32),
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4u32).prop_map(Step::Say),
        1 => (0..4u32).prop_map(Step::Recall),
        2 => Just(Step::Take),
    ]
}

fn said(qp: u32) -> Output {
    Output::Event(Event::QpFatal(QpId(qp)))
}

fn pop(outputs: &mut Outputs) -> Option<Output> {
    match outputs.is_selective() {
        true => outputs.pop_kept(|_| false),
        false => outputs.pop(),
    }
}

proptest! {
    /// Entries come out as from a queue that is searched at each recall.
    #[test]
    fn what_was_recalled_never_comes_out(steps in prop::collection::vec(step(), 0..200)) {
        let mut outputs = Outputs::default();
        let mut model: Vec<u32> = Vec::new();
        for step in steps {
            match step {
                Step::Say(qp) => {
                    outputs.push(said(qp));
                    model.push(qp);
                }
                Step::Recall(qp) => {
                    outputs.recall(Subject::Qp(QpId(qp)));
                    model.retain(|other| *other != qp);
                }
                Step::Take => {
                    let expected = (!model.is_empty()).then(|| model.remove(0));
                    prop_assert_eq!(pop(&mut outputs), expected.map(said));
                }
            }
            prop_assert_eq!(outputs.is_empty(), model.is_empty());
        }
        for qp in model {
            prop_assert_eq!(pop(&mut outputs), Some(said(qp)));
        }
        prop_assert_eq!(pop(&mut outputs), None);
        prop_assert!(outputs.recalled.is_empty(), "nothing is kept for ever");
    }
}

/// Returns the ends of requests: queue pair, number of requests in the entry, and completion.
fn sends(outputs: &mut Outputs) -> Vec<(u32, u32, Option<u64>)> {
    let all = core::iter::from_fn(|| pop(outputs)).map(|output| match output {
        Output::SendDone {
            qp,
            count,
            completion,
            ..
        } => (qp.0, count, completion.map(|completion| completion.wr_id)),
        other => panic!("{other:?}"),
    });
    all.collect()
}

fn completion(qp: u32, wr_id: u64) -> Completion {
    Completion {
        wr_id,
        qp: QpId(qp),
        op: WcOp::Write,
        status: Status::Success,
        byte_len: 0,
        tail: None,
        src_qp: Default::default(),
        grh: None,
        solicited: false,
        enclosed: None,
    }
}

#[test]
fn requests_without_completions_go_with_what_follows() {
    let mut outputs = Outputs::default();
    let mut push =
        |qp, id: Option<u64>| outputs.push_send(QpId(qp), CqId(0), id.map(|id| completion(qp, id)));
    for (qp, id) in [
        (1, None),
        (1, None),
        (1, Some(3)),
        (1, None),
        (2, None),
        (1, Some(5)),
        (1, Some(6)),
    ] {
        push(qp, id);
    }
    let expected = [
        (1, 3, Some(3)),
        (1, 1, None),
        (2, 1, None),
        (1, 1, Some(5)),
        (1, 1, Some(6)),
    ];
    assert_eq!(sends(&mut outputs), expected);
}

#[test]
fn what_is_said_after_a_recall_does_not_go_with_what_was_said_before() {
    let mut outputs = Outputs::default();
    outputs.push_send(QpId(1), CqId(0), None);
    outputs.recall(Subject::Qp(QpId(1)));
    outputs.push_send(QpId(1), CqId(0), None);
    assert_eq!(sends(&mut outputs), [(1, 1, None)]);
}
