//! libFuzzer's program of the target `words`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::words::run(input));
