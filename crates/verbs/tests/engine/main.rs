//! The engine from outside: scripts of two adapters.

mod connection;
mod pair;
