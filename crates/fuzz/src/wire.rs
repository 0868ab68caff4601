//! All formats of the wire; the first byte selects one.

/// Parses, shows, and emits again what was parsed.
pub fn run(input: &[u8]) {
    vrdma_wire::registry::exercise(input);
}
