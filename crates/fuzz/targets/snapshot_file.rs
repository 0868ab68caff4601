//! libFuzzer's program of the target `snapshot_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::snapshot_file::run(input));
