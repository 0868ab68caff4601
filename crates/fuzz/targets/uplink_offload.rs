//! libFuzzer's program of the target `uplink_offload`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::uplink::offload(input));
