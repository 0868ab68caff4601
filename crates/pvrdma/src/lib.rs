//! The PVRDMA device: registers, commands, rings and doorbells
#![forbid(unsafe_code)]

pub mod abi;
