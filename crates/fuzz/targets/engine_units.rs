//! libFuzzer's program of the target `engine_units`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::engine::units::run(input));
