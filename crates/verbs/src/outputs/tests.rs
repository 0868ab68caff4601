use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

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
    /// Beside a queue that is searched.
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
