//! `RingShape` compared with the driver's own arithmetic.

use proptest::prelude::*;

use super::RingShape;

/// `pvrdma_idx`, `pvrdma_idx_ring_inc` and the space and data tests, as the driver computes them.
mod driver {
    pub(super) fn next(index: u32, elements: u32) -> u32 {
        (index + 1) & (2 * elements - 1)
    }

    pub(super) fn slot(index: u32, elements: u32) -> u32 {
        index & (elements - 1)
    }

    pub(super) fn valid(index: u32, elements: u32) -> bool {
        index & !(2 * elements - 1) == 0
    }

    pub(super) fn full(producer: u32, consumer: u32, elements: u32) -> bool {
        producer == consumer ^ elements
    }
}

fn one_turn(elements: u32) -> usize {
    let shape = RingShape::of(elements);
    let mut index = 0;
    for step in 1.. {
        let next = shape.next(index);
        assert_eq!(next, driver::next(index, elements));
        assert_eq!(
            shape.slot(index),
            driver::slot(index, elements) & (shape.usable() - 1)
        );
        assert!(driver::valid(next, elements));
        index = next;
        if index == 0 {
            return step;
        }
    }
    unreachable!("the counter is finite")
}

#[test]
fn device_rings_use_a_third_of_their_slots() {
    assert_eq!(RingShape::EVENTS.usable(), 512);
    assert_eq!(RingShape::NOTIFICATIONS.usable(), 1024);
    assert_eq!(one_turn(1536), 1024);
    assert_eq!(one_turn(3072), 2048);
}

#[test]
fn device_ring_slots_are_the_driver_s() {
    for (elements, period) in [(1536, 1024), (3072, 2048)] {
        let shape = RingShape::of(elements);
        for index in 0..period {
            assert_eq!(shape.slot(index), driver::slot(index, elements));
        }
    }
}

#[test]
fn a_ring_of_one_holds_one() {
    let shape = RingShape::of(1);
    assert_eq!(shape.usable(), 1);
    assert_eq!(shape.filled(1, 0), Some(1));
    assert_eq!(shape.next(1), 0);
    assert_eq!(shape.filled(2, 0), None);
}

proptest! {
    #[test]
    fn powers_of_two_count_as_the_driver_does(
        order in 0u32..16,
        consumer in any::<u32>(),
        filled in any::<u32>(),
    ) {
        let elements = 1 << order;
        let shape = RingShape::of(elements);
        let consumer = consumer & (2 * elements - 1);
        let filled = filled % (elements + 1);
        let producer = (consumer + filled) & (2 * elements - 1);
        prop_assert_eq!(shape.usable(), elements);
        prop_assert_eq!(shape.filled(producer, consumer), Some(filled));
        prop_assert_eq!(driver::full(producer, consumer, elements), filled == elements);
        prop_assert_eq!(shape.next(consumer), driver::next(consumer, elements));
        prop_assert_eq!(shape.slot(consumer), driver::slot(consumer, elements));
    }

    #[test]
    fn impossible_indices_are_seen(order in 0u32..16, producer in any::<u32>(), consumer in any::<u32>()) {
        let shape = RingShape::of(1 << order);
        if let Some(filled) = shape.filled(producer, consumer) {
            prop_assert!(filled <= shape.usable());
            prop_assert!(driver::valid(producer, 1 << order) && driver::valid(consumer, 1 << order));
        }
    }
}
