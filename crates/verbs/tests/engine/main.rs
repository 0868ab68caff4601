//! The engine from outside: scripts of two adapters.

mod connection;
mod datagrams;
mod golden;
mod goodput;
mod hostile;
mod inline;
mod loss;
mod multicast;
mod named_elsewhere;
mod objects;
mod packets;
mod pair;
mod refusal;
mod regions;
mod saved;
mod shared_receives;
mod states;
mod unreliable;
mod windows;
