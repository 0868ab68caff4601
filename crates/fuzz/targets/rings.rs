//! libFuzzer's program of the target `rings`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::rings::run(input));
