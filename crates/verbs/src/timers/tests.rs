use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

proptest! {
    /// A line gives the same as a queue that is searched, though successors use numbers again.
    #[test]
    fn a_line_forgets_those_that_left(steps in prop::collection::vec((0..3u8, 0..6u32), 0..300)) {
        let mut line = Line::default();
        let mut model: Vec<QpId> = Vec::new();
        for (step, number) in steps {
            let qp = QpId(number);
            match step {
                0 if !model.contains(&qp) => {
                    line.push(qp);
                    model.push(qp);
                }
                1 if model.contains(&qp) => {
                    line.leave(qp);
                    model.retain(|other| *other != qp);
                    prop_assert!(line.dead <= line.entries.len() / 2, "it piles up");
                }
                2 => {
                    let expected = (!model.is_empty()).then(|| model.remove(0));
                    prop_assert_eq!(line.pop(), expected);
                }
                _ => {}
            }
            prop_assert_eq!(line.entries.len() - line.dead, model.len());
        }
        for qp in model {
            prop_assert_eq!(line.pop(), Some(qp));
        }
        prop_assert_eq!(line.pop(), None);
        prop_assert!(line.left.is_empty());
    }
}
