//! An adapter's file of a snapshot.

/// Reads the input as a file, with its digest as it is and as it should be.
pub fn run(input: &[u8]) {
    vrdma_migration::fuzz::snapshot_file(input);
}
