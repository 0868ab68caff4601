//! libFuzzer's program of the target `requests`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::requests::run(input));
