//! The `vrdma` command line.
fn main() {}
