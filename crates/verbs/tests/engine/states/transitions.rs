//! Transitions of queue pairs: which there are, and which attributes they need and take.

use std::fmt::Write;

use vrdma_verbs::Error;
use vrdma_verbs::attr::{AttrMask, PathMigration, QpAttr, QpState};
use vrdma_verbs::object::QpType;
use vrdma_wire::{Gid, Mtu};

use super::{STATES, node_in};
use crate::pair::node::{attributes, limits, mask};
use crate::pair::{Node, Setup};

/// Returns the masks that lead from one state to another: the smallest, and the bits that may be added.
fn masks(qp_type: QpType, from: QpState, to: QpState) -> Option<(AttrMask, AttrMask)> {
    let accepts = |mask: AttrMask| {
        let mut node = node_in(qp_type, from)?;
        let mut attr = attributes(node.name(), &Setup::default());
        attr.state = to;
        attr.current_state = from;
        node.hca.modify_qp(node.qp, &attr, mask).ok()
    };
    let bits: Vec<_> = (1..21)
        .map(|bit| AttrMask::from_bits_retain(1 << bit))
        .collect();
    let largest = largest_mask(&bits, &accepts)?;
    let needed = largest
        .iter()
        .filter(|bit| *bit != AttrMask::STATE && accepts(largest - *bit).is_none());
    let required = needed.fold(AttrMask::STATE, |all, bit| all | bit);
    Some((required, largest - required))
}

/// Grows a mask bit by bit from each of the driver's masks until nothing more is accepted.
fn largest_mask(bits: &[AttrMask], accepts: &impl Fn(AttrMask) -> Option<()>) -> Option<AttrMask> {
    let types = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::Gsi];
    let states = [QpState::Init, QpState::Rtr, QpState::Rts];
    let known = types
        .iter()
        .flat_map(|qp_type| states.map(|state| mask(*qp_type, state)))
        .chain([AttrMask::STATE]);
    let start = known.filter(|mask| accepts(*mask).is_some()).last()?;
    let grow = |all: AttrMask, bit: &AttrMask| match accepts(all | *bit) {
        Some(()) => all | *bit,
        None => all,
    };
    Some(bits.iter().fold(start, grow))
}

#[test]
fn transitions_are_those_of_the_table() {
    let mut table = String::new();
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud, QpType::Gsi] {
        for from in STATES {
            for to in STATES {
                if let Some((required, optional)) = masks(qp_type, from, to) {
                    let (required, optional) = (required.bits(), optional.bits());
                    let names = format!("{qp_type:?} {from:?} {to:?}");
                    writeln!(table, "{names:<16} {required:#08x} {optional:#08x}").unwrap();
                }
            }
        }
    }
    assert_eq!(table, include_str!("../transitions.txt"), "\n{table}");
}

#[test]
fn a_wrong_belief_about_the_state_is_refused() {
    let mut node = node_in(QpType::Rc, QpState::Sqd).unwrap();
    let attr = QpAttr {
        state: QpState::Rts,
        current_state: QpState::Rts,
        ..QpAttr::default()
    };
    let mask = AttrMask::STATE | AttrMask::CUR_STATE;
    let refused = node.hca.modify_qp(node.qp, &attr, mask);
    assert_eq!(refused, Err(Error::InvalidTransition));
}

#[test]
fn values_have_ranges() {
    type Spoil = fn(&mut QpAttr);
    let spoil: [(QpState, Spoil); 16] = [
        (QpState::Init, |attr| attr.pkey_index = 1),
        (QpState::Init, |attr| attr.port = 0),
        (QpState::Init, |attr| attr.port = 2),
        (QpState::Rtr, |attr| attr.address.sgid_index = 1),
        (QpState::Rtr, |attr| attr.address.sgid_index = 255),
        (QpState::Rtr, |attr| attr.address.port = 2),
        (QpState::Rtr, |attr| attr.address.dgid = Gid::default()),
        (QpState::Rtr, |attr| attr.address.dgid.0 = [0xff; 16]),
        (QpState::Rtr, |attr| attr.max_dest_rd_atomic = 17),
        (QpState::Rtr, |attr| attr.min_rnr_timer = 32),
        (QpState::Rts, |attr| attr.timeout = 32),
        (QpState::Rts, |attr| attr.retry_count = 8),
        (QpState::Rts, |attr| attr.rnr_retry = 8),
        (QpState::Rts, |attr| attr.max_rd_atomic = 17),
        (QpState::Rts, |attr| attr.max_rd_atomic = 255),
        (QpState::Rts, |attr| attr.timeout = 255),
    ];
    for (to, spoil) in spoil {
        let from = STATES[to as usize - 1];
        let mut node = node_in(QpType::Rc, from).unwrap();
        let mut attr = attributes(node.name(), &Setup::default());
        attr.state = to;
        spoil(&mut attr);
        let refused = node.hca.modify_qp(node.qp, &attr, mask(QpType::Rc, to));
        assert_eq!(refused, Err(Error::InvalidAttribute), "{attr:?}");
        assert_eq!(node.state(), from);
    }
}

#[test]
fn the_path_mtu_fits_the_port() {
    let setup = Setup::default();
    let mut limits = limits();
    limits.port_mtu = Mtu::B512;
    let mut node = Node::with_limits(1, QpType::Rc, &setup, limits);
    let peer = node.name();
    node.connect(peer, &setup, QpState::Init);
    let mut attr = attributes(peer, &setup);
    attr.state = QpState::Rtr;
    let mask = mask(QpType::Rc, QpState::Rtr);
    assert_eq!(
        node.hca.modify_qp(node.qp, &attr, mask),
        Err(Error::InvalidAttribute)
    );
    attr.path_mtu = Mtu::B512;
    assert_eq!(node.hca.modify_qp(node.qp, &attr, mask), Ok(()));
}

/// There is only one path, so its state can only be set to its present value.
#[test]
fn path_migration_is_always_done() {
    let migrate = |path_migration| {
        let mut node = node_in(QpType::Rc, QpState::Rts).unwrap();
        let attr = QpAttr {
            path_migration,
            ..QpAttr::default()
        };
        let refused = node.hca.modify_qp(node.qp, &attr, AttrMask::PATH_MIG_STATE);
        let answer = node.hca.query_qp(node.qp).unwrap();
        assert_eq!(answer.path_migration, PathMigration::Migrated);
        refused
    };
    assert_eq!(migrate(PathMigration::Migrated), Ok(()));
    for other in [PathMigration::Rearm, PathMigration::Armed] {
        assert_eq!(migrate(other), Err(Error::InvalidAttribute));
    }
    let codes = [0, 1, 2].map(PathMigration::from_code);
    assert_eq!(codes.map(|state| state.unwrap() as u32), [0, 1, 2]);
    assert_eq!(PathMigration::from_code(3), None);
}
