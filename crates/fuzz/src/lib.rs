//! Fuzz targets: anything that guests, programs, other hosts, and files may contain, fed to the rooms that read it.
//!
//! ```text
//!   cargo xtask fuzz ── libFuzzer ── targets/NAME.rs ──┐
//!                                                      ├─► TARGETS ── NAME::run(bytes) ── a room
//!   cargo test ── corpus/NAME, found/NAME ─────────────┘
//! ```
//! A target takes any bytes and panics if they reveal a fault. `corpus` holds the smallest inputs that reach what was
//! reached so far; `found` those that once made a target fail, each named after its fault. Ordinary tests replay both,
//! so that old faults are detected without a nightly compiler or coverage counters.
//!
//! The room does not know how inputs are generated: that is libFuzzer's task.
#![forbid(unsafe_code)]

pub mod cm;
pub mod configuration;
pub mod engine;
mod frames;
pub mod guest;
pub mod handover;
mod input;
pub mod places;
pub mod process_cm;
pub mod process_session;
pub mod qemu_stream;
pub mod relay;
pub mod requests;
pub mod rings;
pub mod saved;
pub mod snapshot_file;
pub mod switch;
pub mod uplink;
pub mod vfio_user;
pub mod wire;
pub mod words;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of its program and its folders.
    pub name: &'static str,
    /// Panics if the bytes reveal a fault.
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// All targets, in the order of their names.
pub const TARGETS: &[Target] = &[
    target("cm", cm::run),
    target("configuration", configuration::run),
    target("engine_packets", engine::packets::run),
    target("engine_units", engine::units::run),
    target("guest", guest::run),
    target("handover", handover::run),
    target("kept", process_session::kept::run),
    target("memory_places", places::run),
    target("process_cm", process_cm::run),
    target("process_session", process_session::run),
    target("qemu_stream", qemu_stream::run),
    target("relay", relay::run),
    target("requests", requests::run),
    target("rings", rings::run),
    target("saved", saved::run),
    target("snapshot_file", snapshot_file::run),
    target("switch", switch::run),
    target("uplink_offload", uplink::offload),
    target("uplink_tunnel", uplink::tunnel),
    target("vfio_user", vfio_user::run),
    target("wire", wire::run),
    target("words", words::run),
];
