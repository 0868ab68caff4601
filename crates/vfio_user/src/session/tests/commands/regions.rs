//! What a client learns of a region: its size, its rights, and the pages that it may map.

use rustix::io::Errno;

use crate::message::Command as C;
use crate::script::{Talk, command, words};

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
