//! libFuzzer's program of the target `uplink_tunnel`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_fuzz::uplink::tunnel(input));
