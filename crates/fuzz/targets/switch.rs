//! libFuzzer's program of the target `switch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::switch::run(input));
