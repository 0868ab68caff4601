//! The states that a queue pair may go to, and the attributes for that (IBTA 11.2, "Modify Queue Pair").
//!
//! ```text
//!   RESET ─► INIT ─► RTR ─► RTS ◄─► SQD          any ─► RESET
//!                            ▲                   any but RESET ─► ERR
//!                            └── SQE (unreliable services)
//! ```
//!
//! The alternate path and resized queues do not exist here, so their bits are in no row. The state of path migration
//! may only be set to its present value.

use crate::attr::{AttrMask, QpState};
use crate::object::QpType;

use AttrMask as A;
use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};

/// Attributes of one transition besides the state itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Masks {
    pub(crate) required: AttrMask,
    pub(crate) optional: AttrMask,
}

struct Row {
    from: QpState,
    to: QpState,
    rc: Option<Masks>,
    uc: Option<Masks>,
    ud: Option<Masks>,
    gsi: Option<Masks>,
}

const NONE: Option<Masks> = masks(&[], &[]);

const DATAGRAM_KEYS: Option<Masks> = masks(&[], &[A::PKEY_INDEX, A::QKEY]);

const DATAGRAM_RESUME: Option<Masks> = masks(&[], &[A::CUR_STATE, A::QKEY]);

const DATAGRAM_RTS: Option<Masks> = masks(&[A::SQ_PSN], &[A::CUR_STATE, A::QKEY]);

const CONNECTED_RESUME: Option<Masks> = masks(
    &[],
    &[
        A::CUR_STATE,
        A::ACCESS_FLAGS,
        A::MIN_RNR_TIMER,
        A::PATH_MIG_STATE,
    ],
);

const UNANSWERED_RESUME: Option<Masks> =
    masks(&[], &[A::CUR_STATE, A::ACCESS_FLAGS, A::PATH_MIG_STATE]);

/// Transition from SQE: the kernel's table, which programs follow, has no path migration there.
const UNANSWERED_RECOVER: Option<Masks> = masks(&[], &[A::CUR_STATE, A::ACCESS_FLAGS]);

const TRANSITIONS: &[Row] = &[
    Row {
        from: Reset,
        to: Init,
        rc: masks(&[A::PKEY_INDEX, A::PORT, A::ACCESS_FLAGS], &[]),
        uc: masks(&[A::PKEY_INDEX, A::PORT, A::ACCESS_FLAGS], &[]),
        ud: masks(&[A::PKEY_INDEX, A::PORT, A::QKEY], &[]),
        gsi: masks(&[A::PKEY_INDEX, A::QKEY], &[A::PORT]),
    },
    Row {
        from: Init,
        to: Init,
        rc: masks(&[], &[A::PKEY_INDEX, A::PORT, A::ACCESS_FLAGS]),
        uc: masks(&[], &[A::PKEY_INDEX, A::PORT, A::ACCESS_FLAGS]),
        ud: masks(&[], &[A::PKEY_INDEX, A::PORT, A::QKEY]),
        gsi: DATAGRAM_KEYS,
    },
    Row {
        from: Init,
        to: Rtr,
        rc: masks(
            &[
                A::AV,
                A::PATH_MTU,
                A::DEST_QPN,
                A::RQ_PSN,
                A::MAX_DEST_RD_ATOMIC,
                A::MIN_RNR_TIMER,
            ],
            &[A::ACCESS_FLAGS, A::PKEY_INDEX],
        ),
        uc: masks(
            &[A::AV, A::PATH_MTU, A::DEST_QPN, A::RQ_PSN],
            &[A::ACCESS_FLAGS, A::PKEY_INDEX],
        ),
        ud: DATAGRAM_KEYS,
        gsi: DATAGRAM_KEYS,
    },
    Row {
        from: Rtr,
        to: Rts,
        rc: masks(
            &[
                A::TIMEOUT,
                A::RETRY_CNT,
                A::RNR_RETRY,
                A::SQ_PSN,
                A::MAX_QP_RD_ATOMIC,
            ],
            &[
                A::CUR_STATE,
                A::ACCESS_FLAGS,
                A::MIN_RNR_TIMER,
                A::PATH_MIG_STATE,
            ],
        ),
        uc: masks(
            &[A::SQ_PSN],
            &[A::CUR_STATE, A::ACCESS_FLAGS, A::PATH_MIG_STATE],
        ),
        ud: DATAGRAM_RTS,
        gsi: DATAGRAM_RTS,
    },
    Row {
        from: Rts,
        to: Rts,
        rc: CONNECTED_RESUME,
        uc: UNANSWERED_RESUME,
        ud: DATAGRAM_RESUME,
        gsi: DATAGRAM_RESUME,
    },
    Row {
        from: Rts,
        to: Sqd,
        rc: masks(&[], &[A::EN_SQD_ASYNC_NOTIFY]),
        uc: masks(&[], &[A::EN_SQD_ASYNC_NOTIFY]),
        ud: masks(&[], &[A::EN_SQD_ASYNC_NOTIFY]),
        gsi: masks(&[], &[A::EN_SQD_ASYNC_NOTIFY]),
    },
    Row {
        from: Sqd,
        to: Sqd,
        rc: masks(
            &[],
            &[
                A::PORT,
                A::AV,
                A::TIMEOUT,
                A::RETRY_CNT,
                A::RNR_RETRY,
                A::MAX_QP_RD_ATOMIC,
                A::MAX_DEST_RD_ATOMIC,
                A::CUR_STATE,
                A::PKEY_INDEX,
                A::ACCESS_FLAGS,
                A::MIN_RNR_TIMER,
                A::PATH_MIG_STATE,
            ],
        ),
        uc: masks(
            &[],
            &[A::AV, A::PKEY_INDEX, A::ACCESS_FLAGS, A::PATH_MIG_STATE],
        ),
        ud: DATAGRAM_KEYS,
        gsi: DATAGRAM_KEYS,
    },
    Row {
        from: Sqd,
        to: Rts,
        rc: CONNECTED_RESUME,
        uc: UNANSWERED_RESUME,
        ud: DATAGRAM_RESUME,
        gsi: DATAGRAM_RESUME,
    },
    Row {
        from: Sqe,
        to: Rts,
        rc: None,
        uc: UNANSWERED_RECOVER,
        ud: DATAGRAM_RESUME,
        gsi: DATAGRAM_RESUME,
    },
];

/// Returns the masks of a transition; `None` when there is no such transition.
pub(crate) fn transition(qp_type: QpType, from: QpState, to: QpState) -> Option<Masks> {
    if to == Reset || (to == Err && from != Reset) {
        return NONE;
    }
    let row = TRANSITIONS
        .iter()
        .find(|row| row.from == from && row.to == to)?;
    match qp_type {
        QpType::Rc => row.rc,
        QpType::Uc => row.uc,
        QpType::Ud => row.ud,
        QpType::Gsi => row.gsi,
    }
}

const fn masks(required: &[AttrMask], optional: &[AttrMask]) -> Option<Masks> {
    Some(Masks {
        required: union(required),
        optional: union(optional),
    })
}

const fn union(list: &[AttrMask]) -> AttrMask {
    let mut all = AttrMask::empty();
    let mut i = 0;
    while i < list.len() {
        all = all.union(list[i]);
        i += 1;
    }
    all
}
