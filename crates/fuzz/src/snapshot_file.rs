//! An adapter's file of a snapshot.

/// Reads the input as a file, with its own digest and with the correct one.
pub fn run(input: &[u8]) {
    vrdma_migration::fuzz::snapshot_file(input);
}
