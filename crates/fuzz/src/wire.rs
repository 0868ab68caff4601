//! Every format of the wire; the first byte chooses which.

/// Parses, shows, and emits again what parsed.
pub fn run(input: &[u8]) {
    vrdma_wire::registry::exercise(input);
}
