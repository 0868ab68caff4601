//! Reads and writes of registers, one by one and several at once.

use rustix::io::Errno;

use crate::message::{Command as C, MAX_DATA};
use crate::script::{Call, Talk, access, command, pattern, posted};

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
