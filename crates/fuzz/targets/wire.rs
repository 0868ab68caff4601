//! libFuzzer's program of the target `wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::wire::run(input));
