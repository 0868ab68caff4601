//! libFuzzer's program of the target `memory_places`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::places::run(input));
