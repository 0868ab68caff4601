//! The device as seen by its driver.

mod atomic;
mod connected;
mod context_corpus;
mod crash;
mod datagram;
mod doorbells;
mod errors;
mod events;
mod fast_register;
mod life;
mod long_command;
mod probe;
mod retry;
mod shared_receive;
mod snapshot;
mod train;
