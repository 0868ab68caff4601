//! libFuzzer's program of the target `kept`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::process_session::kept::run(input));
