use super::*;

fn space() -> ConfigSpace {
    ConfigSpace::new(3, 1024 * 4096)
}

fn read<const N: usize>(space: &ConfigSpace, offset: u64) -> [u8; N] {
    let mut out = [0; N];
    space.read(offset, &mut out);
    out
}

#[test]
fn the_driver_finds_its_ids_and_msix() {
    let space = space();
    assert_eq!(read(&space, 0), [0xad, 0x15, 0x20, 0x08]);
    assert_eq!(read(&space, 0x34), [0x40]);
    assert_eq!(read(&space, 0x40), [0x11, 0, 2, 0]);
    assert_eq!(read(&space, 0x44), [0; 4]);
    assert_eq!(u32::from_le_bytes(read(&space, 0x48)), 0x2000);
}

#[test]
fn bars_are_sized_by_writing_ones() {
    let mut space = space();
    for (bar, expected) in [
        (0x10, 0xffff_c000_u32),
        (0x14, 0xffff_f000),
        (0x18, 0xffc0_0004),
        (0x1c, 0xffff_ffff),
    ] {
        space.write(bar, &[0xff; 4]);
        assert_eq!(u32::from_le_bytes(read(&space, bar)), expected, "{bar:#x}");
    }
}

#[test]
fn identity_and_capability_cannot_be_written() {
    let mut space = space();
    let before: [u8; CONFIG_BYTES] = read(&space, 0);
    space.write(0, &[0xff; 4]);
    space.write(0x08, &[0xff; 4]);
    space.write(0x34, &[0xff; 4]);
    space.write(0x80, &[0xff; 128]);
    assert_eq!(read::<CONFIG_BYTES>(&space, 0), before);
    space.write(0x42, &[0xff; 2]);
    assert_eq!(read(&space, 0x42), [0x02, 0xc0]);
}

#[test]
fn bus_mastering_follows_the_command_register() {
    let mut space = space();
    assert!(!space.bus_master());
    space.write(4, &[0x06, 0]);
    assert!(space.bus_master());
    space.write(4, &[0x02, 0]);
    assert!(!space.bus_master());
}

#[test]
fn accesses_beyond_the_end_are_harmless() {
    let mut space = space();
    assert_eq!(read(&space, 254), [0, 0, 0xff, 0xff]);
    assert_eq!(read(&space, u64::MAX), [0xff, 0xff]);
    space.write(254, &[1; 8]);
    space.write(u64::MAX, &[1; 8]);
}
