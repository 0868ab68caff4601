//! Fuzzes every registered format; the first byte of an input chooses which.
//!
//! ```text
//! cd crates/wire/fuzz && cargo run --release -- -max_total_time=600 corpus
//! ```
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vrdma_wire::registry::exercise(input));
