use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

struct OfThis;

#[derive(Default)]
struct Thing {
    link: Link,
}

impl Member<OfThis> for Thing {
    fn link(&self) -> Option<&Link> {
        Some(&self.link)
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.link)
    }
}

fn members(list: &List<OfThis>, table: &Table<Thing>) -> Vec<u32> {
    list.iter(table).map(|(index, _)| index).collect()
}

proptest! {
    /// Lists hold the same as plain vectors after the same steps.
    #[test]
    fn lists_hold_what_joined_and_did_not_leave(steps in prop::collection::vec((0..4usize, any::<u8>()), 0..200)) {
        let mut table = Table::new(0, 1000);
        let mut lists: [List<OfThis>; 3] = Default::default();
        let mut model = vec![Vec::new(); 3];
        for (which, pick) in steps {
            if which < 3 {
                let index = table.insert(|_, _| Thing::default()).unwrap();
                lists[which].push(&mut table, index);
                model[which].push(index);
            } else {
                let which = usize::from(pick) % 3;
                if model[which].is_empty() {
                    continue;
                }
                let at = usize::from(pick) % model[which].len();
                let index = model[which].remove(at);
                lists[which].remove(&mut table, index);
                table.remove(index);
            }
            for (list, expected) in lists.iter().zip(&model) {
                prop_assert_eq!(&members(list, &table), expected);
                prop_assert_eq!(list.len() as usize, expected.len());
                prop_assert_eq!(list.is_empty(), expected.is_empty());
            }
        }
    }
}

#[test]
fn joining_and_leaving_cost_the_same_in_a_long_list() {
    let cost = |members: u32| {
        let mut table = Table::new(0, 10_000);
        let mut list = List::<OfThis>::default();
        for _ in 0..members {
            let index = table.insert(|_, _| Thing::default()).unwrap();
            list.push(&mut table, index);
        }
        let before = table.visits();
        let index = table.insert(|_, _| Thing::default()).unwrap();
        list.push(&mut table, index);
        list.remove(&mut table, members / 2);
        table.visits() - before
    };
    assert_eq!(cost(10), cost(5000));
}
