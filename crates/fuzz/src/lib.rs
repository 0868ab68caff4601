//! Fuzz targets: what guests, programs and other hosts may write, fed to the rooms that read it.
//!
//! ```text
//!   cargo xtask fuzz ── libFuzzer ── targets/NAME.rs ──┐
//!                                                      ├─► TARGETS ── NAME::run(bytes) ── a room
//!   cargo test ── corpus/NAME, found/NAME ─────────────┘
//! ```
//! A target takes any bytes and panics if they find a fault. `corpus` holds the smallest inputs that reach what
//! was reached so far; `found` those that a target once failed, each named after its fault. Ordinary tests replay
//! both, so that neither a nightly compiler nor coverage counters are needed to see an old fault come back.
//!
//! What the room does not know: how inputs are made up, which is libFuzzer's business.
#![forbid(unsafe_code)]

pub mod wire;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Of its program and its folders.
    pub name: &'static str,
    /// Panics if the bytes find a fault.
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// All targets, in the order of their names.
pub const TARGETS: &[Target] = &[target("wire", wire::run)];
