//! The kernel's description of a client's memory: lists with names that the client chose.

/// Reads the list of mappings, and behind the first zero byte that of mounts.
pub fn run(input: &[u8]) {
    let mut halves = input.splitn(2, |byte| *byte == 0);
    let mut next = || halves.next().unwrap_or_default();
    vrdma_memory::fuzz::places(next(), next());
}
