//! The engine from outside: scripts of two adapters.

mod addresses;
mod connection;
mod crash;
mod credits;
mod datagrams;
mod golden;
mod goodput;
mod hostile;
mod inline;
mod leaving;
mod loss;
mod multicast;
mod named_elsewhere;
mod objects;
mod packets;
mod pair;
mod patience;
mod refusal;
mod regions;
mod retries;
mod saved;
mod shared_receives;
mod slow_peer;
mod states;
mod unreliable;
mod windows;
