//! libFuzzer's program of the target `qemu_stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::qemu_stream::run(input));
