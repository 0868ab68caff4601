//! The engine from outside: scripts of two adapters.

mod connection;
mod loss;
mod pair;
mod refusal;
