//! The C libraries `libibverbs.so.1` and `librdmacm.so.1` in one file, for programs on hosts
//! without an RDMA adapter: every verb becomes a message or a ring entry to `vrdmad`.
//!
//! ```text
//!   program --- C ABI (abi, names.txt) ---> entry points --- provider::client ---> vrdmad
//!                                           device, open, memory, cq, qp, srq, ...
//! ```
//!
//! The library keeps what only this process can know: the program's pointers, which memory is
//! registered, what was acknowledged. It does not know what a packet is, nor who the peers are.
//!
//! Rules at the border to C: before the first call only names are looked up and a handler of `fork` is set; no thread
//! is started, unless memory is to be adopted ([`adopt`]); nothing is printed; `errno` is set on failure only; a
//! pointer from C is used once and its contents copied; in a child after `fork` every call on objects of the parent
//! fails with `EIO` ([`fork`]).
//!
//! `names.txt` lists the exported names; functions that are refused answer `EOPNOTSUPP` ([`refused`]).

pub mod abi;
pub mod errno;

pub mod address;
pub mod adopt;
mod advise;
mod beginning;
pub mod builder;
pub mod channel;
pub mod cm;
pub mod completion;
pub mod cq;
pub mod cq_ex;
pub mod device;
pub mod domain;
pub mod event;
mod facts;
#[cfg(test)]
mod fake_daemon;
pub mod fast;
pub mod fork;
pub mod lookup;
mod lost;
pub mod memory;
pub mod multicast;
pub mod open;
pub mod paths;
mod patience;
pub mod port;
pub mod qp;
pub mod qp_attributes;
pub mod qp_ex;
pub mod qp_state;
pub mod query;
pub mod rate;
pub mod recv;
pub mod refused;
pub mod region;
pub mod request;
pub mod send;
pub mod shared;
pub mod srq;
pub mod sysfs;
pub mod text;
pub mod window;
pub mod wr;
