//! libFuzzer's program of the target `process_cm`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::process_cm::run(input));
