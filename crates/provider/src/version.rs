//! The version of the protocol that the two ends speak.
//!
//! The version is the first word of the first request of a connection, [`Hello`] and [`Greet`] alike, in every version:
//! the rest may have another layout.
//!
//! | version | what is new |
//! |---|---|
//! | 1 | |
//! | 2 | completion queues have no data area: payload is in the program's memory before its entry |
//! | 3 | a port tells of packets with wrong keys |
//! | 4 | a file may be a part of a region, and a registration says whether memory was adopted |
//!
//! [`Hello`]: crate::message::Hello
//! [`Greet`]: crate::cm::Greet

/// Version of the whole protocol; both ends must agree. A first request with another version is refused with
/// `EPROTONOSUPPORT`.
pub const VERSION: u32 = 4;

/// The error for a library of another version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "its libibverbs.so.1 speaks version {0} of the protocol and this daemon version {VERSION}; \
     start it with the library that was installed with this daemon"
)]
pub struct OtherVersion(pub u32);

/// Checks that the version of a first request is ours.
pub fn check(said: u32) -> Result<(), OtherVersion> {
    if said == VERSION {
        Ok(())
    } else {
        Err(OtherVersion(said))
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn another_version_is_told_with_both_numbers_and_what_to_do() {
        assert_eq!(check(VERSION), Ok(()));
        let sentence = check(1).unwrap_err().to_string();
        for part in ["version 1 ", "version 4;", "start it with the library"] {
            assert!(sentence.contains(part), "{sentence}");
        }
    }

    #[test]
    fn the_version_comes_first() {
        assert_eq!(offset_of!(crate::message::Hello, version), 0);
        assert_eq!(offset_of!(crate::cm::Greet, version), 0);
    }
}
