//! libFuzzer's program of the target `cm`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::cm::run(input));
