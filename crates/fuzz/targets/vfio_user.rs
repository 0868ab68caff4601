//! libFuzzer's program of the target `vfio_user`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::vfio_user::run(input));
