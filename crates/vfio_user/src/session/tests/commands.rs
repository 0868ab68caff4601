//! Every command, right and wrong.

use rustix::io::Errno;

use crate::backend::{DmaMap, DmaUnmap, IrqAction};
use crate::message::{Command as C, MAX_DATA};
use crate::script::{
    Call, Irqs, QEMU_VERSION, Talk, access, command, message, pattern, posted, words,
};

#[test]
fn the_version_comes_first_and_once() {
    let mut talk = Talk::default();
    talk.send(&command(1, C::DeviceGetInfo, &words(&[16, 0, 0, 0])));
    talk.expect_error(1, Errno::INVAL);
    talk.send(&command(2, C::Version, b"\x01\0\0\0"));
    talk.expect_error(2, Errno::PROTONOSUPPORT);
    talk.send(&command(3, C::Version, QEMU_VERSION));
    assert!(
        talk.reply()
            .payload
            .starts_with(b"\0\0\0\0{\"capabilities\":{\"max_msg_fds\":16,")
    );
    talk.send(&command(4, C::Version, QEMU_VERSION));
    talk.expect_error(4, Errno::INVAL);
}

#[test]
fn the_device_is_a_pci_device_with_all_of_vfios_indices() {
    let mut talk = Talk::greeted();
    talk.send(&command(1, C::DeviceGetInfo, &words(&[16, 0, 0, 0])));
    talk.expect(1, C::DeviceGetInfo, &words(&[16, 3, 9, 5]));
    talk.send(&command(2, C::DeviceGetInfo, &words(&[15, 0, 0, 0])));
    talk.expect_error(2, Errno::INVAL);
    talk.send(&command(3, C::DeviceGetInfo, &words(&[16, 0, 0])));
    talk.expect_error(3, Errno::INVAL);
}

fn region_query(argsz: u32, index: u32) -> Vec<u8> {
    command(
        1,
        C::DeviceGetRegionInfo,
        &words(&[argsz, 0, index, 0, 0, 0, 0, 0]),
    )
}

#[test]
fn a_plain_region_has_no_capabilities() {
    let mut talk = Talk::greeted();
    talk.send(&region_query(32, 7));
    talk.expect(
        1,
        C::DeviceGetRegionInfo,
        &words(&[32, 0b0011, 7, 0, 0x100, 0, 0, 0]),
    );
    talk.send(&region_query(32, 3));
    talk.expect(
        1,
        C::DeviceGetRegionInfo,
        &words(&[32, 0b0001, 3, 0, 0x1000, 0, 0, 0]),
    );
}

#[test]
fn a_region_that_the_device_lacks_is_empty_and_one_that_pci_lacks_is_an_error() {
    let mut talk = Talk::greeted();
    talk.send(&region_query(32, 8));
    talk.expect(
        1,
        C::DeviceGetRegionInfo,
        &words(&[32, 0, 8, 0, 0, 0, 0, 0]),
    );
    for (argsz, index) in [(32, 9), (32, u32::MAX), (31, 0)] {
        talk.send(&region_query(argsz, index));
        talk.expect_error(1, Errno::INVAL);
    }
}

#[test]
fn the_mmap_flag_alone_comes_with_an_empty_list() {
    let mut talk = Talk::greeted();
    talk.send(&region_query(48, 1));
    let info = [48, 0b1110, 1, 32, 0x100, 0, 0, 0];
    let sparse = [0x0001_0001, 0, 0, 0];
    talk.expect(
        1,
        C::DeviceGetRegionInfo,
        &words(&[&info[..], &sparse].concat()),
    );
}

#[test]
fn mappable_pages_come_with_their_file() {
    let mut talk = Talk::greeted();
    talk.send(&region_query(200, 2));
    let info = [64, 0b1111, 2, 32, 0x1_0000, 0, 0x2000, 0];
    let sparse = [0x0001_0001, 0, 1, 0, 0x1000, 0, 0x1000, 0];
    let sent = talk.reply();
    sent.expect(
        1,
        C::DeviceGetRegionInfo,
        &words(&[&info[..], &sparse].concat()),
    );
    assert!(sent.fd);
}

#[test]
fn a_client_with_little_room_is_told_how_much_to_bring() {
    let mut talk = Talk::greeted();
    talk.send(&region_query(63, 2));
    talk.expect(
        1,
        C::DeviceGetRegionInfo,
        &words(&[64, 0b1111, 2, 32, 0x1_0000, 0, 0x2000, 0]),
    );
}

#[test]
fn interrupt_types_say_how_many_vectors_they_have() {
    let mut talk = Talk::greeted();
    let cases = [(0, 0b0111, 0), (1, 1, 0), (2, 1, 4), (3, 1, 1), (4, 1, 0)];
    for (index, flags, count) in cases {
        talk.send(&command(1, C::DeviceGetIrqInfo, &words(&[16, 0, index, 0])));
        talk.expect(1, C::DeviceGetIrqInfo, &words(&[16, flags, index, count]));
    }
    talk.send(&command(2, C::DeviceGetIrqInfo, &words(&[16, 0, 5, 0])));
    talk.expect_error(2, Errno::INVAL);
    talk.send(&command(3, C::DeviceGetIrqInfo, &words(&[12, 0, 2, 0])));
    talk.expect_error(3, Errno::INVAL);
}

const NONE: u32 = 1 << 0;
const BOOL: u32 = 1 << 1;
const EVENTFD: u32 = 1 << 2;
const MASK: u32 = 1 << 3;
const UNMASK: u32 = 1 << 4;
const TRIGGER: u32 = 1 << 5;

fn set_irqs(flags: u32, index: u32, start: u32, count: u32, data: &[u8]) -> Vec<u8> {
    let argsz = 20 + data.len() as u32;
    let payload = [&words(&[argsz, flags, index, start, count]), data].concat();
    command(1, C::DeviceSetIrqs, &payload)
}

fn irqs(start: u32, count: u32, action: IrqAction, data: Irqs) -> Call {
    Call::Irqs {
        index: 2,
        start,
        count,
        action,
        data,
    }
}

#[test]
fn eventfds_are_wired_and_unwired() {
    let mut talk = Talk::greeted();
    talk.send_with(&set_irqs(EVENTFD | TRIGGER, 2, 1, 3, &[]), 3);
    talk.expect(1, C::DeviceSetIrqs, &[]);
    talk.send(&set_irqs(EVENTFD | TRIGGER, 2, 1, 3, &[]));
    talk.expect(1, C::DeviceSetIrqs, &[]);
    talk.send(&set_irqs(NONE | TRIGGER, 2, 0, 0, &[]));
    talk.expect(1, C::DeviceSetIrqs, &[]);
    talk.expect_calls(&[
        irqs(1, 3, IrqAction::Trigger, Irqs::Eventfds(3)),
        irqs(1, 3, IrqAction::Trigger, Irqs::Eventfds(0)),
        irqs(0, 0, IrqAction::Trigger, Irqs::None),
    ]);
}

#[test]
fn interrupts_are_masked_and_raised() {
    let mut talk = Talk::greeted();
    talk.send(&set_irqs(NONE | MASK, 2, 0, 4, &[]));
    talk.expect(1, C::DeviceSetIrqs, &[]);
    talk.send(&set_irqs(BOOL | UNMASK, 2, 2, 2, &[0, 1]));
    talk.expect(1, C::DeviceSetIrqs, &[]);
    talk.expect_calls(&[
        irqs(0, 4, IrqAction::Mask, Irqs::None),
        irqs(2, 2, IrqAction::Unmask, Irqs::Bool(vec![0, 1])),
    ]);
}

#[test]
fn impossible_interrupt_requests_are_refused() {
    let cases = [
        (EVENTFD | TRIGGER, 2, 0, 2, 1),
        (EVENTFD | TRIGGER, 2, 0, 1, 2),
        (EVENTFD | TRIGGER, 2, 3, 2, 2),
        (EVENTFD | TRIGGER, 2, 0, 0, 0),
        (EVENTFD | TRIGGER, 1, 0, 1, 1),
        (EVENTFD | TRIGGER, 5, 0, 1, 1),
        (EVENTFD | TRIGGER, u32::MAX, 0, 1, 1),
        (EVENTFD | BOOL | TRIGGER, 2, 0, 1, 1),
        (EVENTFD | TRIGGER | MASK, 2, 0, 1, 1),
        (EVENTFD, 2, 0, 1, 1),
        (TRIGGER, 2, 0, 1, 1),
        (NONE | TRIGGER | 1 << 6, 2, 0, 1, 0),
        (NONE | TRIGGER, 2, u32::MAX, 1, 0),
        (NONE | TRIGGER, 2, 2, u32::MAX, 0),
        (NONE | TRIGGER, 2, 1, 0, 0),
        (BOOL | TRIGGER, 2, 0, 1, 0),
        (BOOL | TRIGGER, 2, 0, u32::MAX, 0),
    ];
    for (flags, index, start, count, fds) in cases {
        let mut talk = Talk::greeted();
        talk.send_with(&set_irqs(flags, index, start, count, &[]), fds);
        talk.expect_error(1, Errno::INVAL);
        talk.expect_silence();
    }
}

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

#[test]
fn registers_are_read() {
    let mut talk = Talk::greeted();
    talk.send(&command(1, C::RegionRead, &access(0xffc, 0, 4)));
    talk.expect(
        1,
        C::RegionRead,
        &[access(0xffc, 0, 4), pattern(0xffc, 4)].concat(),
    );
    talk.expect_calls(&[Call::Read {
        region: 0,
        offset: 0xffc,
        length: 4,
    }]);
}

#[test]
fn registers_are_written() {
    let mut talk = Talk::greeted();
    let write = [access(8, 1, 4), vec![1, 2, 3, 4]].concat();
    talk.send(&command(1, C::RegionWrite, &write));
    talk.expect(1, C::RegionWrite, &access(8, 1, 4));
    talk.send(&posted(2, C::RegionWrite, &write));
    let call = Call::Write {
        region: 1,
        offset: 8,
        data: vec![1, 2, 3, 4],
    };
    talk.expect_calls(&[call.clone(), call]);
    talk.expect_silence();
}

#[test]
fn empty_accesses_inside_a_region_succeed_without_the_device() {
    let mut talk = Talk::greeted();
    for command_ in [C::RegionRead, C::RegionWrite] {
        talk.send(&command(1, command_, &access(0x1000, 0, 0)));
        talk.expect(1, command_, &access(0x1000, 0, 0));
    }
    talk.expect_silence();
}

#[test]
fn accesses_outside_a_region_never_reach_the_device() {
    let cases = [
        (0x1000, 0, 1, Errno::INVAL),
        (0xffd, 0, 4, Errno::INVAL),
        (0x1001, 0, 0, Errno::INVAL),
        (u64::MAX, 0, 1, Errno::INVAL),
        (u64::MAX - 3, 0, 8, Errno::INVAL),
        (0, 4, 4, Errno::INVAL),
        (0, 9, 4, Errno::INVAL),
        (0, u32::MAX, 4, Errno::INVAL),
        (0, 2, MAX_DATA + 1, Errno::INVAL),
        (0, 2, u32::MAX, Errno::INVAL),
    ];
    let mut talk = Talk::greeted();
    for (offset, region, count, errno) in cases {
        talk.send(&command(1, C::RegionRead, &access(offset, region, count)));
        talk.expect_error(1, errno);
        let data = vec![0; count.min(MAX_DATA) as usize];
        talk.send(&command(
            2,
            C::RegionWrite,
            &[access(offset, region, count), data].concat(),
        ));
        talk.expect_error(2, errno);
    }
    talk.expect_silence();
}

#[test]
fn a_region_allows_what_it_says() {
    let mut talk = Talk::greeted();
    talk.send(&command(1, C::RegionRead, &access(0, 1, 4)));
    talk.expect_error(1, Errno::ACCESS);
    talk.send(&command(
        2,
        C::RegionWrite,
        &[access(0, 3, 1), vec![0]].concat(),
    ));
    talk.expect_error(2, Errno::ACCESS);
    talk.expect_silence();
}

#[test]
fn the_largest_read_works() {
    let mut talk = Talk::greeted();
    talk.send(&command(1, C::RegionRead, &access(0, 2, MAX_DATA)));
    let data = pattern(0, MAX_DATA as usize);
    talk.expect(1, C::RegionRead, &[access(0, 2, MAX_DATA), data].concat());
}

#[test]
fn a_write_has_as_much_data_as_it_says() {
    let mut talk = Talk::greeted();
    for data in [vec![], vec![0; 3], vec![0; 5]] {
        talk.send(&command(
            1,
            C::RegionWrite,
            &[access(0, 0, 4), data].concat(),
        ));
        talk.expect_error(1, Errno::INVAL);
    }
    talk.expect_silence();
}

fn multi(count: u64, writes: &[(u64, u32, u32)]) -> Vec<u8> {
    let one = |(offset, region, size)| [access(offset, region, size), vec![7; 8]].concat();
    let writes: Vec<u8> = writes.iter().copied().flat_map(one).collect();
    [count.to_le_bytes().to_vec(), writes].concat()
}

#[test]
fn combined_writes_are_done_in_order() {
    let mut talk = Talk::greeted();
    let writes = multi(3, &[(0, 0, 4), (8, 1, 8), (2, 0, 0)]);
    let calls = [
        Call::Write {
            region: 0,
            offset: 0,
            data: vec![7; 4],
        },
        Call::Write {
            region: 1,
            offset: 8,
            data: vec![7; 8],
        },
    ];
    talk.send(&posted(1, C::RegionWriteMulti, &writes));
    talk.expect_calls(&calls);
    talk.expect_silence();
    talk.send(&command(2, C::RegionWriteMulti, &writes));
    talk.expect(2, C::RegionWriteMulti, &3u64.to_le_bytes());
    talk.expect_calls(&calls);
}

#[test]
fn bad_combined_writes_are_done_in_no_part() {
    let cases = [
        multi(2, &[(0, 0, 4), (0x1000, 0, 1)]),
        multi(2, &[(0, 0, 4), (0, 3, 1)]),
        multi(1, &[(0, 0, 9)]),
        multi(2, &[(0, 0, 4)]),
        multi(0, &[(0, 0, 4)]),
        multi(u64::MAX, &[(0, 0, 4)]),
        multi(1, &[(0, 0, 4)])[..31].to_vec(),
        vec![0; 7],
    ];
    for payload in cases {
        let mut talk = Talk::greeted();
        talk.send(&command(1, C::RegionWriteMulti, &payload));
        assert_eq!(talk.replies().len(), 1);
        talk.send(&posted(2, C::RegionWriteMulti, &payload));
        talk.expect_silence();
    }
}

#[test]
fn the_device_is_reset() {
    let mut talk = Talk::greeted();
    talk.send(&command(1, C::DeviceReset, &[]));
    talk.expect(1, C::DeviceReset, &[]);
    talk.expect_calls(&[Call::Reset]);
}

#[test]
fn what_is_not_offered_is_refused_and_the_stream_goes_on() {
    let mut talk = Talk::greeted();
    let feature = words(&[8, 1 << 18 | 1 << 16 | 1]);
    let cases: [(u16, &[u8], Errno); 10] = [
        (16, &feature, Errno::NOTTY),
        (16, &feature[..7], Errno::INVAL),
        (6, &[0; 16], Errno::OPNOTSUPP),
        (14, &[0; 40], Errno::OPNOTSUPP),
        (17, &[8; 8], Errno::INVAL),
        (18, &[8; 8], Errno::INVAL),
        (0, &[], Errno::OPNOTSUPP),
        (0xffff, &[0xff; 1000], Errno::OPNOTSUPP),
        (11, &[0; 16], Errno::INVAL),
        (12, &[0; 16], Errno::INVAL),
    ];
    let kind = crate::message::Kind::Command { no_reply: false };
    for (code, payload, errno) in cases {
        talk.send(&message(5, code, kind, payload));
        talk.expect_error(5, errno);
    }
    talk.send(&command(6, C::DeviceReset, &[]));
    talk.expect(6, C::DeviceReset, &[]);
}

#[test]
fn a_command_that_wants_no_reply_gets_none_not_even_an_error() {
    let mut talk = Talk::greeted();
    talk.send(&posted(1, C::DeviceGetInfo, &words(&[16, 0, 0, 0])));
    talk.send(&posted(2, C::DeviceGetInfo, &[]));
    talk.send(&posted(3, C::RegionRead, &access(0, 0, 4)));
    talk.send(&posted(4, C::RegionRead, &access(u64::MAX, 0, 4)));
    talk.send(&posted(5, C::DeviceFeature, &words(&[8, 0])));
    talk.send(&posted(
        6,
        C::DeviceGetRegionInfo,
        &words(&[64, 0, 2, 0, 0, 0, 0, 0]),
    ));
    talk.expect_silence();
    talk.send(&posted(7, C::DeviceReset, &[]));
    talk.expect_calls(&[Call::Reset]);
    talk.expect_silence();
}
