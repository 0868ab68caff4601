//! Guest memory that a client maps and unmaps.

use rustix::io::Errno;

use crate::backend::{DmaMap, DmaUnmap};
use crate::message::Command as C;
use crate::script::{Call, Talk, command, words};

fn dma_map(flags: u32, offset: u64, iova: u64, size: u64) -> Vec<u8> {
    let range = [offset, iova, size].map(u64::to_le_bytes).concat();
    command(1, C::DmaMap, &[words(&[32, flags]), range].concat())
}

#[test]
fn memory_is_mapped_with_and_without_a_file() {
    let mut talk = Talk::greeted();
    talk.send_with(&dma_map(3, 0x1000, 0x10_0000, 0x4000), 1);
    talk.expect(1, C::DmaMap, &[]);
    talk.send(&dma_map(1, 0, 0xffff_ffff_ffff_0000, 0x1_0000));
    talk.expect(1, C::DmaMap, &[]);
    let ram = DmaMap {
        iova: 0x10_0000,
        size: 0x4000,
        offset: 0x1000,
        readable: true,
        writable: true,
    };
    let rom = DmaMap {
        iova: 0xffff_ffff_ffff_0000,
        size: 0x1_0000,
        offset: 0,
        readable: true,
        writable: false,
    };
    talk.expect_calls(&[
        Call::Map { map: ram, fd: true },
        Call::Map {
            map: rom,
            fd: false,
        },
    ]);
}

#[test]
fn impossible_mappings_are_refused() {
    let cases = [
        (0, 0, 0, 0x1000, 0),
        (4, 0, 0, 0x1000, 0),
        (3, 0, 0, 0, 0),
        (3, 0, u64::MAX, 2, 0),
        (3, 0, 0x1000, u64::MAX, 0),
        (3, u64::MAX, 0, 0x1000, 1),
        (3, i64::MAX as u64, 0, 0x1000, 1),
        (3, 0, 0, 0x1000, 2),
    ];
    for (flags, offset, iova, size, fds) in cases {
        let mut talk = Talk::greeted();
        talk.send_with(&dma_map(flags, offset, iova, size), fds);
        talk.expect_error(1, Errno::INVAL);
        talk.expect_silence();
    }
}

#[test]
fn the_devices_own_refusal_reaches_the_client() {
    let mut talk = Talk::greeted();
    talk.device.map_error = Some(Errno::EXIST);
    talk.send_with(&dma_map(3, 0, 0, 0x1000), 1);
    talk.expect_error(1, Errno::EXIST);
}

fn dma_unmap(flags: u32, iova: u64, size: u64) -> Vec<u8> {
    [
        words(&[24, flags]),
        [iova, size].map(u64::to_le_bytes).concat(),
    ]
    .concat()
}

#[test]
fn unmapping_answers_with_the_entry() {
    let mut talk = Talk::greeted();
    let payload = dma_unmap(0, 0x1000, 0x2000);
    talk.send(&command(1, C::DmaUnmap, &payload));
    talk.expect(1, C::DmaUnmap, &payload);
    let payload = dma_unmap(2, 0, 0);
    talk.send(&command(1, C::DmaUnmap, &payload));
    talk.expect(1, C::DmaUnmap, &payload);
    let one = DmaUnmap::Range {
        iova: 0x1000,
        size: 0x2000,
    };
    talk.expect_calls(&[Call::Unmap(one), Call::Unmap(DmaUnmap::All)]);
}

#[test]
fn impossible_unmappings_are_refused() {
    let mut talk = Talk::greeted();
    let cases = [
        (0, 0, 0, Errno::INVAL),
        (0, u64::MAX, 2, Errno::INVAL),
        (2, 0, 0x1000, Errno::INVAL),
        (1, 0, 0x1000, Errno::OPNOTSUPP),
    ];
    for (flags, iova, size, errno) in cases {
        talk.send(&command(1, C::DmaUnmap, &dma_unmap(flags, iova, size)));
        talk.expect_error(1, errno);
    }
    talk.expect_silence();
}
