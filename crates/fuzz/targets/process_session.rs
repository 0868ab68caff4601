//! libFuzzer's program of the target `process_session`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::process_session::run(input));
