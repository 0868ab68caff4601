//! Features and the log of written pages.

use rustix::io::Errno;

use super::{GET, MIGRATION, PROBE, SET, STATE, STOP, feature, migrator, outcome, steps, talk};
use crate::message::{Command as C, MAX_DATA, MAX_LOGGED_RANGES};
use crate::script::{Step, Talk, WRITTEN, command, posted, words};

const START: u32 = 6;
const REPORT: u32 = 8;

#[test]
fn features_are_probed_with_the_ways_to_use_them() {
    let mut talk = talk();
    let offered = [
        (MIGRATION, GET),
        (STATE, GET | SET),
        (START, SET),
        (STOP, SET),
        (REPORT, GET),
    ];
    for (index, methods) in offered {
        for asked in [0, GET, SET, GET | SET] {
            let message = feature(8, PROBE | asked | index, &[]);
            let expected = match asked & !methods {
                0 => Ok(message[16..].to_vec()),
                _ => Err(Errno::INVAL),
            };
            assert_eq!(outcome(&mut talk, &message), expected, "{index} {asked:#x}");
        }
    }
    for unknown in [0, 3, 4, 5, 9, 10, 0xffff] {
        for asked in [PROBE, PROBE | GET, GET, SET] {
            let refused = outcome(&mut talk, &feature(64, asked | unknown, &[0; 56]));
            assert_eq!(refused, Err(Errno::NOTTY), "{unknown}");
        }
    }
    assert_eq!(steps(&mut talk), []);
}

#[test]
fn the_offered_states_are_those_of_stop_and_copy() {
    let mut talk = talk();
    let answer = outcome(&mut talk, &feature(100, GET | MIGRATION, &[])).unwrap();
    assert_eq!(answer, words(&[16, GET | MIGRATION, 1, 0]));
}

#[test]
fn features_that_are_asked_for_in_a_wrong_way_are_refused() {
    let mut talk = talk();
    let log = [0x1000, 0, 1, 0, 0x10_0000, 0, 0x1000, 0];
    let wrong: [(u32, u32, &[u32]); 14] = [
        (16, MIGRATION, &[]),
        (16, GET | SET | STATE, &[1, 0]),
        (16, GET | STATE | 1 << 19, &[]),
        (16, SET | MIGRATION, &[1, 0]),
        (16, GET | START, &[]),
        (15, GET | MIGRATION, &[]),
        (15, GET | STATE, &[]),
        (0, PROBE | STATE, &[]),
        (15, SET | STATE, &[1, 0]),
        (16, SET | STATE, &[1]),
        (39, SET | START, &log),
        (64, SET | START, &log[..6]),
        (64, SET | START, &[0x1001, 0, 0, 0]),
        (64, SET | START, &[0, 0, 0, 0]),
    ];
    for (argsz, flags, data) in wrong {
        let refused = outcome(&mut talk, &feature(argsz, flags, &words(data)));
        assert_eq!(refused, Err(Errno::INVAL), "{argsz} {flags:#x} {data:?}");
    }
    let torn = outcome(&mut talk, &command(1, C::DeviceFeature, &[8, 0, 0, 0, 1]));
    assert_eq!(torn, Err(Errno::INVAL));
    for (iova, length) in [(0, 0), (u64::MAX, 2)] {
        let range = [iova.to_le_bytes(), u64::to_le_bytes(length)].concat();
        let data = [words(&[0x1000, 0, 1, 0]), range].concat();
        let refused = outcome(&mut talk, &feature(40, SET | START, &data));
        assert_eq!(refused, Err(Errno::INVAL));
    }
    let many = words(&[0x1000, 0, MAX_LOGGED_RANGES + 1, 0]);
    let refused = outcome(&mut talk, &feature(u32::MAX, SET | START, &many));
    assert_eq!(refused, Err(Errno::TOOBIG));
    assert_eq!(steps(&mut talk), []);
}

#[test]
fn a_log_is_of_pages_whatever_was_asked_for() {
    let mut talk = talk();
    let data = words(&[0x20_0000, 0, 1, 0, 0x10_0000, 0, 0x1000, 0]);
    let answer = outcome(&mut talk, &feature(40, SET | START, &data)).unwrap();
    let paged = words(&[40, SET | START, 0x1000, 0, 1, 0, 0x10_0000, 0, 0x1000, 0]);
    assert_eq!(answer, paged);
    let all = words(&[0x1000, 0, 0, 0]);
    migrator(&mut talk).refuses = Some((Step::StartLogging, Errno::INVAL));
    let again = outcome(&mut talk, &feature(24, SET | START, &all));
    assert_eq!(again, Err(Errno::INVAL));
    let stop = feature(8, SET | STOP, &[]);
    assert_eq!(outcome(&mut talk, &stop).unwrap(), stop[16..]);
    let told = [Step::StartLogging, Step::StartLogging, Step::StopLogging];
    assert_eq!(steps(&mut talk), told);
}

fn report_of(iova: u64, length: u64) -> Vec<u8> {
    [iova, length, 0x1000].map(u64::to_le_bytes).concat()
}

/// The set bits of the bitmap reported for a range.
fn report(talk: &mut Talk, numbers: [u64; 3], bitmap: u32) -> Result<Vec<usize>, Errno> {
    let data = numbers.map(u64::to_le_bytes).concat();
    let answer = outcome(talk, &feature(32 + bitmap, GET | REPORT, &data))?;
    assert_eq!(answer[..8], words(&[32 + bitmap, GET | REPORT]));
    assert_eq!(answer[8..32], data);
    let bitmap_bytes = &answer[32..];
    assert_eq!(bitmap_bytes.len(), bitmap as usize);
    let is_set = |bit: &usize| bitmap_bytes[bit / 8] >> (bit % 8) & 1 == 1;
    Ok((0..bitmap_bytes.len() * 8).filter(is_set).collect())
}

#[test]
fn written_pages_are_bits_from_the_start_of_the_range() {
    let mut talk = talk();
    let all = report(&mut talk, [0, 0x10_0000, 0x1000], 32).unwrap();
    assert_eq!(all, [0x10, 0x11, 0x50]);
    let some = report(&mut talk, [0x1_1000, 0x1_0000, 0x1000], 8).unwrap();
    assert_eq!(some, [0]);
    // A larger page is reported if a part of it was written.
    let large = report(&mut talk, [0, 0x10_0000, 0x2000], 16).unwrap();
    assert_eq!(large, [8, 0x28]);
    let huge = report(&mut talk, [0, 0x10_0000, 0x20_0000], 8).unwrap();
    assert_eq!(huge, [0]);
    assert_eq!(steps(&mut talk).len(), 4);
    assert_eq!(WRITTEN.len(), 3);
    migrator(&mut talk).refuses = Some((Step::TakeWritten(0..0x1000), Errno::INVAL));
    assert_eq!(report(&mut talk, [0, 0x1000, 0x1000], 8), Err(Errno::INVAL));
}

#[test]
fn ranges_that_cannot_be_told_are_refused() {
    let mut talk = talk();
    // The largest bitmap that fits a message.
    let most = u64::from(MAX_DATA) * 8 * 0x1000;
    report(&mut talk, [0, most, 0x1000], MAX_DATA).unwrap();
    // The last page of the address space.
    report(&mut talk, [0u64.wrapping_sub(0x1000), 0x1000, 0x1000], 8).unwrap();
    steps(&mut talk);
    let wrong = [
        ([0, most + 0x1000, 0x1000], u32::MAX - 32),
        ([0, u64::MAX - 0xfff, 0x1000], u32::MAX - 32),
        ([0, 0, 0x1000], 8),
        ([0, 0x1000, 0x800], 8),
        ([0, 0x1000, 0x1800], 8),
        ([0, 0x1000, 0], 8),
        ([0x800, 0x1000, 0x1000], 8),
        ([0x1000, 0x2000, 0x2000], 8),
        ([0, 0x1800, 0x1000], 8),
        ([0u64.wrapping_sub(0x1000), 0x2000, 0x1000], 8),
        ([0, 0x1000, 0x1000], 7),
    ];
    for (numbers, bitmap) in wrong {
        let refused = report(&mut talk, numbers, bitmap);
        assert_eq!(refused, Err(Errno::INVAL), "{numbers:#x?}");
    }
    assert_eq!(steps(&mut talk), []);
}

/// A report without an answer leaves the log unchanged.
#[test]
fn a_report_that_wants_no_answer_forgets_nothing() {
    let mut talk = talk();
    let report = [&words(&[40, GET | REPORT])[..], &report_of(0, 0x10_0000)].concat();
    talk.send(&posted(1, C::DeviceFeature, &report));
    assert_eq!(steps(&mut talk), []);
    assert_eq!(talk.replies(), []);
}
