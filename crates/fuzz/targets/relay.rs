//! libFuzzer's program of the target `relay`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::relay::run(input));
