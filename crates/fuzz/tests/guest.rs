//! Hostile guests with random actions.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nobody_else_is_harmed(deeds in prop::collection::vec(any::<u8>(), 1..2500)) {
        vrdma_fuzz::guest::run(&deeds);
    }
}
