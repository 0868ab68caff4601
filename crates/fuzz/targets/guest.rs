//! libFuzzer's program of the target `guest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::guest::run(input));
