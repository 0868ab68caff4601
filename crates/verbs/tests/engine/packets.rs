//! The same engine with a wire in between: every unit is a frame.

use proptest::prelude::*;
use vrdma_verbs::object::QpType;
use vrdma_wire::Mtu;

use crate::loss::{Ledger, faults, ops};
use crate::pair::{Fate, Pair, Setup};

fn mtu() -> impl Strategy<Value = Mtu> {
    let code = 1..=5u32;
    code.prop_map(|code| Mtu::from_code(code).unwrap())
}

proptest! {
    /// Whatever the wire does: every request completes once, in order, with the right bytes, and
    /// nothing fails while no more packets are lost than there are retries.
    #[test]
    fn everything_completes_exactly_once_in_order(
        ops in ops(),
        faults in faults(),
        bearable in any::<bool>(),
        mtu in mtu(),
        psn in prop_oneof![Just(0u32), Just(0xff_fff8), 0..1u32 << 24],
        rd_atomic in 1u8..5,
    ) {
        let setup = Setup { mtu, psn, retry_count: 7, rd_atomic, ..Setup::default() };
        let mut ledger = Ledger::over(Pair::wired(QpType::Rc, setup), 256);
        for (id, op) in (0..).zip(&ops) {
            ledger.post(id, op);
        }
        let mut faults = faults.into_iter().filter(move |fault| !bearable || *fault > 2);
        let mut losses = if bearable { 7 } else { usize::MAX };
        ledger.pair.fates(move |_| match faults.next() {
            Some(1) => Fate::Delay,
            Some(2) => Fate::Double,
            Some(3 | 4) if losses > 0 => {
                losses -= 1;
                Fate::Lose
            }
            _ => Fate::Arrive,
        });
        ledger.pair.run_dry();
        ledger.check(ops.len() as u64);
        prop_assert!(!bearable || ledger.all_succeeded());
    }
}
