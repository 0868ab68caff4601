//! Rules 33 to 36: changing queue pairs.

use vrdma_driver::object::{Connection, Qp, QpShape, qp_mask, qp_state};
use vrdma_driver::{CommandError, Guest};
use vrdma_pvrdma::abi::qp::QpAttributes;
use vrdma_pvrdma::abi::request::qp_type;
use vrdma_wire::Gid;

use super::objects::queue_pair;
use super::single::{Single, assert_refused};

const RESET: u32 = qp_state::RESET;
const INIT: u32 = qp_state::INIT;
const RTR: u32 = qp_state::RTR;
const RTS: u32 = qp_state::RTS;
const SQD: u32 = qp_state::SQD;
const SQE: u32 = qp_state::SQE;
const ERR: u32 = qp_state::ERR;

fn attributes(vm: &Guest, state: u32) -> QpAttributes {
    QpAttributes {
        qp_state: state.into(),
        qkey: 1.into(),
        ..Connection::to(9, vm.gid()).attributes()
    }
}

/// Required attributes of a transition.
fn mask(kind: u8, from: u32, to: u32) -> u32 {
    match (kind, from, to) {
        (qp_type::RC, RESET, INIT) => qp_mask::RC_INIT,
        (qp_type::RC, INIT, RTR) => qp_mask::RC_RTR,
        (qp_type::RC, RTR, RTS) => qp_mask::RC_RTS,
        (qp_type::UD, RESET, INIT) => qp_mask::UD_INIT,
        (qp_type::UD, RTR, RTS) => qp_mask::UD_RTS,
        _ => qp_mask::STATE,
    }
}

fn change(vm: &mut Guest, qp: &Qp, from: u32, to: u32) -> Result<(), CommandError> {
    let attrs = attributes(vm, to);
    vm.modify_qp(qp, mask(qp.qp_type, from, to), attrs)
}

/// A new queue pair, brought to `state`. SQE is reached only by failing.
fn in_state(vm: &mut Guest, single: (vrdma_driver::object::Pd, QpShape), state: u32) -> Qp {
    let (_, qp) = queue_pair(vm, single.0, single.1);
    let path = [RESET, INIT, RTR, RTS, SQD];
    let steps = match state {
        ERR => 1,
        _ => state as usize,
    };
    for step in path[..=steps].windows(2) {
        change(vm, &qp, step[0], step[1]).unwrap();
    }
    if state == ERR {
        change(vm, &qp, INIT, ERR).unwrap();
    }
    qp
}

#[test]
fn rule_33_only_live_queue_pairs_are_changed() {
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    let (_, qp) = queue_pair(vm, pd, QpShape::RC);
    for nobody in [0, qp.handle + 1, 1 << 16, 1 << 24, u32::MAX] {
        let stranger = Qp {
            handle: nobody,
            ..qp.clone()
        };
        assert_refused(vm.init_qp(&stranger, 0, 0));
        assert_refused(vm.query_qp(&stranger));
    }
}

#[test]
fn rule_34_only_legal_transitions() {
    let legal = [
        (RESET, INIT),
        (RESET, RESET),
        (RESET, ERR),
        (INIT, INIT),
        (INIT, RTR),
        (RTR, RTS),
        (RTS, RTS),
        (RTS, SQD),
        (SQD, RTS),
        (SQD, SQD),
        (INIT, RESET),
        (RTR, RESET),
        (RTS, RESET),
        (SQD, RESET),
        (ERR, RESET),
        (INIT, ERR),
        (RTR, ERR),
        (RTS, ERR),
        (SQD, ERR),
        (ERR, ERR),
    ];
    // The kernel requires neither these transitions nor anything that depends on them.
    let open = [(RESET, RESET), (RESET, ERR), (INIT, INIT)];
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    for shape in [QpShape::RC, QpShape::UD] {
        for from in [RESET, INIT, RTR, RTS, SQD, ERR] {
            for to in [RESET, INIT, RTR, RTS, SQD, SQE, ERR, 7, u32::MAX] {
                let qp = in_state(vm, (pd, shape), from);
                let changed = change(vm, &qp, from, to);
                if !open.contains(&(from, to)) {
                    let expected = legal.contains(&(from, to));
                    assert_eq!(changed.is_ok(), expected, "{shape:?} {from} to {to}");
                }
                vm.destroy_qp(qp).unwrap();
            }
        }
    }
}

#[test]
fn rule_34_required_attributes_are_there_and_foreign_ones_are_not() {
    const SQ_PSN: u32 = 1 << 16;
    const EVERY: u32 = 0x1f_ffff;
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    for (from, to) in [(RESET, INIT), (INIT, RTR), (RTR, RTS)] {
        let qp = in_state(vm, (pd, QpShape::RC), from);
        let attrs = attributes(vm, to);
        let required = mask(qp_type::RC, from, to);
        for bit in (1..21)
            .map(|bit| 1 << bit)
            .filter(|bit| required & bit != 0)
        {
            assert_refused(vm.modify_qp(&qp, required & !bit, attrs));
        }
        assert_refused(vm.modify_qp(&qp, EVERY, attrs));
        if to == INIT {
            assert_refused(vm.modify_qp(&qp, required | SQ_PSN, attrs));
        }
        vm.modify_qp(&qp, required, attrs).unwrap();
    }
}

#[test]
fn rule_34_a_wrong_idea_of_the_current_state_is_refused() {
    const CUR_STATE: u32 = 2;
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    let qp = in_state(vm, (pd, QpShape::RC), RTR);
    let mut attrs = attributes(vm, RTS);
    attrs.cur_qp_state = RTS.into();
    assert_refused(vm.modify_qp(&qp, qp_mask::RC_RTS | CUR_STATE, attrs));
    attrs.cur_qp_state = RTR.into();
    vm.modify_qp(&qp, qp_mask::RC_RTS | CUR_STATE, attrs)
        .unwrap();
}

#[test]
fn rule_35_values_are_in_range() {
    type Spoil = fn(&mut QpAttributes);
    let wrong: [(u32, Spoil); 13] = [
        (RTR, |attrs| attrs.path_mtu = 0.into()),
        (RTR, |attrs| attrs.path_mtu = 6.into()),
        (RTR, |attrs| attrs.ah_attr.sgid_index = 1),
        (RTR, |attrs| attrs.ah_attr.sgid_index = 255),
        (RTR, |attrs| attrs.ah_attr.dgid = [0; 16]),
        (RTR, |attrs| attrs.ah_attr.dgid = Gid([0xff; 16]).0),
        (RTR, |attrs| attrs.dest_qp_num = (1 << 24).into()),
        (RTR, |attrs| attrs.max_dest_rd_atomic = 17),
        (RTR, |attrs| attrs.min_rnr_timer = 32),
        (RTS, |attrs| attrs.max_rd_atomic = 17),
        (RTS, |attrs| attrs.timeout = 32),
        (RTS, |attrs| attrs.retry_cnt = 8),
        (RTS, |attrs| attrs.rnr_retry = 8),
    ];
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    for (row, (to, spoil)) in wrong.into_iter().enumerate() {
        let from = to - 1;
        let qp = in_state(vm, (pd, QpShape::RC), from);
        let mut attrs = attributes(vm, to);
        spoil(&mut attrs);
        let changed = vm.modify_qp(&qp, mask(qp_type::RC, from, to), attrs);
        assert!(
            matches!(changed, Err(CommandError::Refused(_))),
            "row {row}: {changed:?}"
        );
        assert_eq!(
            vm.query_qp(&qp).unwrap().qp_state.get(),
            from,
            "nothing has changed"
        );
        change(vm, &qp, from, to).unwrap();
    }
}

#[test]
fn rule_35_sequence_numbers_are_cut_to_24_bits() {
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    let qp = in_state(vm, (pd, QpShape::RC), INIT);
    let mut attrs = attributes(vm, RTR);
    attrs.rq_psn = 0xff12_3456.into();
    vm.modify_qp(&qp, qp_mask::RC_RTR, attrs).unwrap();
    assert_eq!(vm.query_qp(&qp).unwrap().rq_psn.get(), 0x12_3456);
}

#[test]
fn rule_36_no_alternate_paths_and_no_resizing() {
    const ALT_PATH: u32 = 1 << 14;
    const PATH_MIG_STATE: u32 = 1 << 18;
    const CAP: u32 = 1 << 19;
    const ARMED: u32 = 2;
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    for foreign in [ALT_PATH, PATH_MIG_STATE, CAP] {
        let qp = in_state(vm, (pd, QpShape::RC), RTR);
        let mut attrs = attributes(vm, RTS);
        attrs.path_mig_state = ARMED.into();
        assert_refused(vm.modify_qp(&qp, qp_mask::RC_RTS | foreign, attrs));
        vm.modify_qp(&qp, qp_mask::RC_RTS, attrs).unwrap();
    }
}
