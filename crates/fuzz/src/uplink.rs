//! Arrivals over an uplink: segments as the kernel joined them, and datagrams of a tunnel.

use crate::input::Input;

/// A frame with an offload header, or two frames that may be joined.
pub fn offload(input: &[u8]) {
    let mut input = Input::new(input);
    if input.is_odd() {
        vrdma_uplink::fuzz::train(input.block(), input.block());
    } else {
        vrdma_uplink::fuzz::offload(input.block());
    }
}

/// Runs an input as a script of datagrams.
pub fn tunnel(input: &[u8]) {
    vrdma_uplink::fuzz::ingress(input);
}
