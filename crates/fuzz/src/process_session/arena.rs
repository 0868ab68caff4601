//! Memory and files that a program may register: their contents do not matter.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::input::Input;

pub(super) const ARENA_BYTES: usize = 1 << 16;

static ARENA: LazyLock<&'static [u8]> = LazyLock::new(|| vec![0; ARENA_BYTES].leak());

/// Address of the arena.
pub(super) fn arena() -> u64 {
    ARENA.as_ptr() as u64
}

/// Files of the kinds that programs have.
pub(super) fn descriptor(input: &mut Input<'_>) -> Option<OwnedFd> {
    let memory = |flags| {
        let fd = memfd_create("fuzz", MemfdFlags::CLOEXEC | flags).ok()?;
        ftruncate(&fd, 1 << 16).ok()?;
        Some(fd)
    };
    let opened = |path: &str| File::open(path).ok().map(OwnedFd::from);
    match input.below(6) {
        0 => memory(MemfdFlags::empty()),
        1 => memory(MemfdFlags::ALLOW_SEALING),
        2 => opened("/dev/null"),
        3 => opened("/proc/self/mem"),
        4 => opened("/"),
        _ => rustix::pipe::pipe().ok().map(|(read, _)| read),
    }
}
