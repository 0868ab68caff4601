//! Every command, right and wrong: here those about the connection and the device as a whole.

mod accesses;
mod interrupts;
mod mappings;
mod regions;

use rustix::io::Errno;

use crate::message::Command as C;
use crate::script::{Call, QEMU_VERSION, Talk, access, command, message, posted, words};

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
