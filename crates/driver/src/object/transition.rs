//! State changes of queue pairs.

use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::qp::{AddressAttributes, QpAttributes};
use vrdma_pvrdma::abi::request::{ModifyQp, qp_type};
use vrdma_wire::Gid;

use super::{Qp, rights};
use crate::command::CommandError;
use crate::guest::Guest;

/// States (`enum ib_qp_state`).
#[allow(missing_docs, reason = "the names are the field's own")]
pub mod qp_state {
    pub const RESET: u32 = 0;
    pub const INIT: u32 = 1;
    pub const RTR: u32 = 2;
    pub const RTS: u32 = 3;
    pub const SQD: u32 = 4;
    pub const SQE: u32 = 5;
    pub const ERR: u32 = 6;
}

/// Masks of the usual transitions (`qp_state_table` of the kernel: the required attributes, no more).
#[allow(missing_docs, reason = "the names are the transitions")]
pub mod qp_mask {
    pub const STATE: u32 = 1;
    pub const RC_INIT: u32 = 0x39;
    pub const UD_INIT: u32 = 0x71;
    pub const GSI_INIT: u32 = 0x51;
    pub const RC_RTR: u32 = 0x12_9181;
    pub const RC_RTS: u32 = 0x1_2e01;
    pub const UD_RTS: u32 = 0x1_0001;
}

/// Usual values of attributes that tests seldom set.
const GRH: u8 = 1;
const HOP_LIMIT: u8 = 64;
/// 4.096 us * 2^14 = 67 ms, as perftest sets.
const TIMEOUT: u8 = 14;
const RETRIES: u8 = 7;
/// 0.64 ms.
const RNR_TIMER: u8 = 12;

/// Attributes of a connected QP.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// QP number of the peer.
    pub qpn: u32,
    /// GID of the peer.
    pub gid: Gid,
    /// Index of the own GID.
    pub sgid_index: u8,
    /// Path MTU code, 1 to 5.
    pub mtu: u32,
    /// First PSN from the peer.
    pub rq_psn: u32,
    /// First PSN to the peer.
    pub sq_psn: u32,
    /// Timeout for an answer: 4.096 us times two to this power.
    pub timeout: u8,
    /// Retries after a missing answer.
    pub retries: u8,
    /// Retries when the receiver is not ready; 7 is for ever.
    pub rnr_retry: u8,
    /// READs and atomics in flight, both ways.
    pub rd_atomic: u8,
    /// Rights of the peer.
    pub access: u32,
}

impl Connection {
    /// A connection to a peer, with usual values.
    pub fn to(qpn: u32, gid: Gid) -> Self {
        Self {
            qpn,
            gid,
            sgid_index: 0,
            mtu: 3,
            rq_psn: 0x11_1111,
            sq_psn: 0x11_1111,
            timeout: TIMEOUT,
            retries: RETRIES,
            rnr_retry: 7,
            rd_atomic: 4,
            access: rights::ALL,
        }
    }

    /// All attributes of the connection, for any transition.
    pub fn attributes(&self) -> QpAttributes {
        QpAttributes {
            path_mtu: self.mtu.into(),
            rq_psn: self.rq_psn.into(),
            sq_psn: self.sq_psn.into(),
            dest_qp_num: self.qpn.into(),
            qp_access_flags: self.access.into(),
            max_rd_atomic: self.rd_atomic,
            max_dest_rd_atomic: self.rd_atomic,
            min_rnr_timer: RNR_TIMER,
            port_num: 1,
            timeout: self.timeout,
            retry_cnt: self.retries,
            rnr_retry: self.rnr_retry,
            ah_attr: AddressAttributes {
                dgid: self.gid.0,
                sgid_index: self.sgid_index,
                hop_limit: HOP_LIMIT,
                ah_flags: GRH,
                port_num: 1,
                ..AddressAttributes::default()
            },
            ..QpAttributes::default()
        }
    }
}

impl Guest {
    /// MODIFY_QP.
    pub fn modify_qp(
        &mut self,
        qp: &Qp,
        attr_mask: u32,
        attrs: QpAttributes,
    ) -> Result<(), CommandError> {
        let request = ModifyQp {
            qp_handle: qp.handle.into(),
            attr_mask: attr_mask.into(),
            attrs,
        };
        self.ask::<()>(Command::ModifyQp, &request)
    }

    /// Changes the state and nothing else.
    pub fn set_qp_state(&mut self, qp: &Qp, state: u32) -> Result<(), CommandError> {
        let attrs = QpAttributes {
            qp_state: state.into(),
            ..QpAttributes::default()
        };
        self.modify_qp(qp, qp_mask::STATE, attrs)
    }

    /// Goes back to RESET; the guest zeroes the indices when the command is done.
    pub fn reset_qp(&mut self, qp: &Qp) -> Result<(), CommandError> {
        self.set_qp_state(qp, qp_state::RESET)?;
        let view = self.ram.view();
        qp.send.restart(&view);
        qp.recv.iter().for_each(|ring| ring.restart(&view));
        Ok(())
    }

    /// Goes from RESET to INIT.
    pub fn init_qp(&mut self, qp: &Qp, access: u32, qkey: u32) -> Result<(), CommandError> {
        let mask = match qp.qp_type {
            qp_type::GSI => qp_mask::GSI_INIT,
            qp_type::UD => qp_mask::UD_INIT,
            _ => qp_mask::RC_INIT,
        };
        let attrs = QpAttributes {
            qp_state: qp_state::INIT.into(),
            qp_access_flags: access.into(),
            qkey: qkey.into(),
            port_num: 1,
            ..QpAttributes::default()
        };
        self.modify_qp(qp, mask, attrs)
    }

    /// Goes from INIT to RTR, for a connected QP.
    pub fn rtr_qp(&mut self, qp: &Qp, connection: &Connection) -> Result<(), CommandError> {
        let attrs = QpAttributes {
            qp_state: qp_state::RTR.into(),
            ..connection.attributes()
        };
        self.modify_qp(qp, qp_mask::RC_RTR, attrs)
    }

    /// Goes from RTR to RTS, for a connected QP.
    pub fn rts_qp(&mut self, qp: &Qp, connection: &Connection) -> Result<(), CommandError> {
        let attrs = QpAttributes {
            qp_state: qp_state::RTS.into(),
            ..connection.attributes()
        };
        self.modify_qp(qp, qp_mask::RC_RTS, attrs)
    }

    /// Goes from RESET to RTS, for a connected QP.
    pub fn connect(&mut self, qp: &Qp, connection: &Connection) -> Result<(), CommandError> {
        self.init_qp(qp, connection.access, 0)?;
        self.rtr_qp(qp, connection)?;
        self.rts_qp(qp, connection)
    }

    /// Goes from RESET to RTS, for a datagram QP.
    pub fn start_datagrams(&mut self, qp: &Qp, qkey: u32) -> Result<(), CommandError> {
        self.init_qp(qp, 0, qkey)?;
        self.set_qp_state(qp, qp_state::RTR)?;
        let attrs = QpAttributes {
            qp_state: qp_state::RTS.into(),
            ..QpAttributes::default()
        };
        self.modify_qp(qp, qp_mask::UD_RTS, attrs)
    }
}
