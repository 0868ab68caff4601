use std::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use super::*;

const LENGTH: usize = 1 << 16;

fn own() -> Places {
    Places::of(rustix::process::getpid()).unwrap()
}

fn mapped(file: impl AsFd) -> u64 {
    // SAFETY: a fresh mapping.
    let at = unsafe {
        mmap(
            null_mut(),
            LENGTH,
            ProtFlags::READ,
            MapFlags::PRIVATE,
            file,
            0,
        )
    };
    at.unwrap() as u64
}

/// Asserts that both ways to find out agree.
fn cannot_stall(places: &Places, at: u64) -> bool {
    let listed = places.listed(at, at + LENGTH as u64);
    match places.asked(at, at + LENGTH as u64) {
        Err(Errno::NOTTY | Errno::INVAL) => {}
        asked => assert_eq!(asked, Ok(listed)),
    }
    listed
}

#[test]
fn memory_is_at_hand_and_other_files_are_not() {
    let places = own();
    // SAFETY: a fresh mapping.
    let nothing = unsafe { mmap_anonymous(null_mut(), LENGTH, ProtFlags::READ, MapFlags::PRIVATE) };
    assert!(cannot_stall(&places, nothing.unwrap() as u64));
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    assert!(cannot_stall(&places, mapped(&file)));
    // `/dev/zero` lies on a file system without a block device, like a FUSE file.
    let strange = File::open("/dev/zero").unwrap();
    assert!(!cannot_stall(&places, mapped(&strange)));
}

#[test]
fn a_line_of_the_list_is_read() {
    let line = "7f10-7f30 r--p 00001000 00:2a 17   /mnt/a file";
    let mapping = Mapping {
        start: 0x7f10,
        end: 0x7f30,
        device: makedev(0, 0x2a),
    };
    assert_eq!(Mapping::parse(line), Some(mapping));
    assert_eq!(Mapping::parse("7f10-7f30 r--p"), None);
}
