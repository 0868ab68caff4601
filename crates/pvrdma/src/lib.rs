//! The PVRDMA device: registers, commands, rings and doorbells
#![forbid(unsafe_code)]

pub mod abi;
pub mod config_space;
pub mod ring;
