//! The operations of a send slot: the one place that knows which fields of a [`SendHeader`] each operation uses.
//!
//! ```text
//!                        imm    remote_addr  rkey      compare_add  swap    target   qkey    bind_lkey
//!   SEND
//!   SEND_WITH_IMM        imm
//!   SEND_WITH_INV        key
//!   RDMA_WRITE                  address      key
//!   RDMA_WRITE_WITH_IMM  imm    address      key
//!   RDMA_READ                   address      key
//!   ATOMIC_CMP_AND_SWP          address      key       compare      swap
//!   ATOMIC_FETCH_AND_ADD        address      key       addend
//!   LOCAL_INV            key
//!   BIND_MW                                  new key   address      length  window   rights  region
//!   (datagrams, beside)                                                     QP       Q_Key
//! ```
//!
//! The library writes operations with [`Operation::write`], the daemon reads its private copy of the header with
//! [`Operation::of`]. Neither handles cookie, flags, buffers and the path of a datagram.

use crate::layout::{SendHeader, opcode};

/// A place in a peer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Peer's address.
    pub addr: u64,
    /// Peer's key.
    pub rkey: u32,
}

/// Operands of a BIND_MW.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bind {
    /// Handle of the window.
    pub window: u32,
    /// Its new key.
    pub rkey: u32,
    /// Key of the region.
    pub lkey: u32,
    /// First address in the window.
    pub addr: u64,
    /// Bytes of the window.
    pub length: u64,
    /// Bits of [`access`](crate::message::access).
    pub access: u32,
}

/// An operation and its operands: `enum ibv_wr_opcode`. Immediate data are in network byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are the field's own")]
pub enum Operation {
    Write(Remote),
    WriteImm(Remote, [u8; 4]),
    Send,
    SendImm([u8; 4]),
    Read(Remote),
    CompareSwap {
        remote: Remote,
        compare: u64,
        swap: u64,
    },
    FetchAdd {
        remote: Remote,
        add: u64,
    },
    /// The key to invalidate.
    LocalInvalidate(u32),
    BindWindow(Bind),
    /// The peer's key to invalidate.
    SendInvalidate(u32),
}

impl Operation {
    /// The operation's number in a slot.
    #[inline]
    pub const fn opcode(&self) -> u32 {
        match self {
            Self::Write(_) => opcode::RDMA_WRITE,
            Self::WriteImm(..) => opcode::RDMA_WRITE_WITH_IMM,
            Self::Send => opcode::SEND,
            Self::SendImm(_) => opcode::SEND_WITH_IMM,
            Self::Read(_) => opcode::RDMA_READ,
            Self::CompareSwap { .. } => opcode::ATOMIC_CMP_AND_SWP,
            Self::FetchAdd { .. } => opcode::ATOMIC_FETCH_AND_ADD,
            Self::LocalInvalidate(_) => opcode::LOCAL_INV,
            Self::BindWindow(_) => opcode::BIND_MW,
            Self::SendInvalidate(_) => opcode::SEND_WITH_INV,
        }
    }

    /// Writes the operation into a header whose operands are zero.
    #[inline(always)] // where the operation is known, only its own fields are left to write
    pub fn write(self, header: &mut SendHeader) {
        header.opcode = self.opcode();
        match self {
            Self::Send => {}
            Self::SendImm(imm) => header.imm = imm,
            Self::LocalInvalidate(key) | Self::SendInvalidate(key) => {
                header.imm = key.to_ne_bytes();
            }
            Self::Write(remote) | Self::Read(remote) => at(header, remote),
            Self::WriteImm(remote, imm) => {
                at(header, remote);
                header.imm = imm;
            }
            Self::CompareSwap {
                remote,
                compare,
                swap,
            } => {
                at(header, remote);
                (header.compare_add, header.swap) = (compare, swap);
            }
            Self::FetchAdd { remote, add } => {
                at(header, remote);
                header.compare_add = add;
            }
            Self::BindWindow(bind) => {
                (header.target, header.rkey) = (bind.window, bind.rkey);
                (header.bind_lkey, header.qkey) = (bind.lkey, bind.access);
                (header.compare_add, header.swap) = (bind.addr, bind.length);
            }
        }
    }

    /// Reads the operation from a header; `None` if there is no such operation.
    #[inline]
    pub fn of(header: &SendHeader) -> Option<Self> {
        let (imm, key) = (header.imm, u32::from_ne_bytes(header.imm));
        let remote = Remote {
            addr: header.remote_addr,
            rkey: header.rkey,
        };
        Some(match header.opcode {
            opcode::RDMA_WRITE => Self::Write(remote),
            opcode::RDMA_WRITE_WITH_IMM => Self::WriteImm(remote, imm),
            opcode::SEND => Self::Send,
            opcode::SEND_WITH_IMM => Self::SendImm(imm),
            opcode::RDMA_READ => Self::Read(remote),
            opcode::ATOMIC_CMP_AND_SWP => Self::CompareSwap {
                remote,
                compare: header.compare_add,
                swap: header.swap,
            },
            opcode::ATOMIC_FETCH_AND_ADD => Self::FetchAdd {
                remote,
                add: header.compare_add,
            },
            opcode::LOCAL_INV => Self::LocalInvalidate(key),
            opcode::BIND_MW => Self::BindWindow(Bind {
                window: header.target,
                rkey: header.rkey,
                lkey: header.bind_lkey,
                addr: header.compare_add,
                length: header.swap,
                access: header.qkey,
            }),
            opcode::SEND_WITH_INV => Self::SendInvalidate(key),
            _ => return None,
        })
    }
}

#[inline]
fn at(header: &mut SendHeader, remote: Remote) {
    (header.remote_addr, header.rkey) = (remote.addr, remote.rkey);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn remote() -> impl Strategy<Value = Remote> {
        any::<(u64, u32)>().prop_map(|(addr, rkey)| Remote { addr, rkey })
    }

    fn bind() -> impl Strategy<Value = Bind> {
        let numbers = any::<(u32, u32, u32, u64, u64, u32)>();
        numbers.prop_map(|(window, rkey, lkey, addr, length, access)| Bind {
            window,
            rkey,
            lkey,
            addr,
            length,
            access,
        })
    }

    fn operation() -> impl Strategy<Value = Operation> {
        use Operation as Op;
        prop_oneof![
            Just(Op::Send),
            any::<[u8; 4]>().prop_map(Op::SendImm),
            any::<u32>().prop_map(Op::SendInvalidate),
            any::<u32>().prop_map(Op::LocalInvalidate),
            remote().prop_map(Op::Write),
            remote().prop_map(Op::Read),
            (remote(), any::<[u8; 4]>()).prop_map(|(remote, imm)| Op::WriteImm(remote, imm)),
            (remote(), any::<u64>()).prop_map(|(remote, add)| Op::FetchAdd { remote, add }),
            (remote(), any::<(u64, u64)>()).prop_map(|(remote, (compare, swap))| {
                Op::CompareSwap {
                    remote,
                    compare,
                    swap,
                }
            }),
            bind().prop_map(Op::BindWindow),
        ]
    }

    proptest! {
        #[test]
        fn the_daemon_reads_what_the_library_wrote(operation in operation()) {
            let mut header = SendHeader::default();
            operation.write(&mut header);
            prop_assert_eq!(Operation::of(&header), Some(operation));
            let others = (header.wr_id, header.flags, header.buffers, header.address);
            prop_assert_eq!(others, Default::default());
        }
    }

    #[test]
    fn only_the_operations_of_the_table_are_known() {
        for opcode in 0..64 {
            let header = SendHeader {
                opcode,
                ..SendHeader::default()
            };
            let found = Operation::of(&header);
            assert_eq!(found.is_some(), opcode <= opcode::SEND_WITH_INV, "{opcode}");
            assert!(found.is_none_or(|found| found.opcode() == opcode));
        }
    }
}
