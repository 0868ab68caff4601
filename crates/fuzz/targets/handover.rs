//! libFuzzer's program of the target `handover`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::handover::run(input));
