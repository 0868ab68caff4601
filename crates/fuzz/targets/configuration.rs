//! libFuzzer's program of the target `configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::configuration::run(input));
