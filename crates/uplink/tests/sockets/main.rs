//! Ports on real sockets. Tests that need rights make namespaces of their own, so none needs root.

mod kernel;
mod namespace;
mod raw;
mod tap;
mod tunnel;
mod world;
