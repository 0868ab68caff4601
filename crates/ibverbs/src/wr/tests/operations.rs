//! Each operation as `ibv_post_send` and `ibv_wr_*` get it, with operands that differ in every byte.

use core::ffi::c_uint;

use vrdma_provider::layout::opcode;
use vrdma_provider::message::access;

use crate::abi;

pub(super) const COOKIE: u64 = 0x0102_0304_0506_0708;
const IMM: u32 = 0x0a0b_0c0d;
pub(super) const KEY: u32 = 0x1b1c_1d1e;
const ADDRESS: u64 = 0x2021_2223_2425_2627;
const COMPARE_ADD: u64 = 0x3031_3233_3435_3637;
const SWAP: u64 = 0x4041_4243_4445_4647;
pub(super) const TARGET: u32 = 0x0051_5253;
pub(super) const QKEY: u32 = 0x6162_6364;
const WINDOW_RIGHTS: c_uint = access::REMOTE_READ | access::REMOTE_WRITE;

/// Objects that requests point to.
pub(super) struct Objects {
    pub(super) ah: *mut abi::Ah,
    pub(super) mw: *mut abi::Mw,
    pub(super) mr: *mut abi::Mr,
    /// Buffers in registered memory.
    pub(super) sges: [abi::Sge; 2],
}

/// One operation in both ways.
pub(super) struct Row {
    pub(super) operation: u32,
    /// `enum ibv_qp_create_send_ops_flags`.
    pub(super) bit: u64,
    pub(super) describe: fn(&Objects, &mut abi::SendWr),
    pub(super) call: fn(&abi::QpEx, *mut abi::QpEx, &Objects),
}

fn rdma(wr: &mut abi::SendWr) {
    wr.wr.rdma = abi::Rdma {
        remote_addr: ADDRESS,
        rkey: KEY,
    };
}

fn atomic(wr: &mut abi::SendWr, swap: u64) {
    wr.wr.atomic = abi::Atomic {
        remote_addr: ADDRESS,
        compare_add: COMPARE_ADD,
        swap,
        rkey: KEY,
    };
}

fn bind_info(objects: &Objects) -> abi::MwBindInfo {
    abi::MwBindInfo {
        mr: objects.mr,
        addr: ADDRESS,
        length: SWAP,
        mw_access_flags: WINDOW_RIGHTS,
    }
}

pub(super) const ROWS: [Row; 10] = [
    Row {
        operation: opcode::RDMA_WRITE,
        bit: 1 << 0,
        describe: |_, wr| rdma(wr),
        call: |ex, qp, _| call!(ex.wr_rdma_write(qp, KEY, ADDRESS)),
    },
    Row {
        operation: opcode::RDMA_WRITE_WITH_IMM,
        bit: 1 << 1,
        describe: |_, wr| {
            rdma(wr);
            wr.imm_data = IMM;
        },
        call: |ex, qp, _| call!(ex.wr_rdma_write_imm(qp, KEY, ADDRESS, IMM)),
    },
    Row {
        operation: opcode::SEND,
        bit: 1 << 2,
        describe: |_, _| {},
        call: |ex, qp, _| call!(ex.wr_send(qp)),
    },
    Row {
        operation: opcode::SEND_WITH_IMM,
        bit: 1 << 3,
        describe: |_, wr| wr.imm_data = IMM,
        call: |ex, qp, _| call!(ex.wr_send_imm(qp, IMM)),
    },
    Row {
        operation: opcode::RDMA_READ,
        bit: 1 << 4,
        describe: |_, wr| rdma(wr),
        call: |ex, qp, _| call!(ex.wr_rdma_read(qp, KEY, ADDRESS)),
    },
    Row {
        operation: opcode::ATOMIC_CMP_AND_SWP,
        bit: 1 << 5,
        describe: |_, wr| atomic(wr, SWAP),
        call: |ex, qp, _| call!(ex.wr_atomic_cmp_swp(qp, KEY, ADDRESS, COMPARE_ADD, SWAP)),
    },
    Row {
        operation: opcode::ATOMIC_FETCH_AND_ADD,
        bit: 1 << 6,
        describe: |_, wr| atomic(wr, 0),
        call: |ex, qp, _| call!(ex.wr_atomic_fetch_add(qp, KEY, ADDRESS, COMPARE_ADD)),
    },
    Row {
        operation: opcode::LOCAL_INV,
        bit: 1 << 7,
        describe: |_, wr| wr.imm_data = KEY,
        call: |ex, qp, _| call!(ex.wr_local_inv(qp, KEY)),
    },
    Row {
        operation: opcode::BIND_MW,
        bit: 1 << 8,
        describe: |objects, wr| {
            wr.tail.bind_mw = abi::BindMw {
                mw: objects.mw,
                rkey: KEY,
                bind_info: bind_info(objects),
            };
        },
        call: |ex, qp, objects| {
            let info = bind_info(objects);
            call!(ex.wr_bind_mw(qp, objects.mw, KEY, &raw const info));
        },
    },
    Row {
        operation: opcode::SEND_WITH_INV,
        bit: 1 << 9,
        describe: |_, wr| wr.imm_data = KEY,
        call: |ex, qp, _| call!(ex.wr_send_inv(qp, KEY)),
    },
];
