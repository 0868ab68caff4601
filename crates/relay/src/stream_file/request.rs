//! The kernel's requests to the server of a file, and the answers (linux/fuse.h, version 7.31).
//!
//! ```text
//!   request: fuse_in_header ─ arguments ─ data          answer: fuse_out_header ─ result
//! ```
//! The file system is one file, which can be written. Its bytes are discarded once taken, whatever length it shows.

use rustix::io::Errno;

/// Most bytes of one write: twice what QEMU has in a packet of multifd.
pub(super) const WRITE_BYTES_MAX: usize = 1 << 20;

/// Room for the longest request, as the kernel counts it.
pub(super) const REQUEST_BYTES_MAX: usize = WRITE_BYTES_MAX + 4096;

const IN_HEADER_BYTES: usize = 40;
const WRITE_IN_BYTES: usize = 40;
const OUT_HEADER_BYTES: usize = 16;
pub(super) const PAGE_BYTES: usize = 4096;

const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const WRITE: u32 = 16;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const FORGET: u32 = 2;
const BATCH_FORGET: u32 = 42;

/// `FUSE_BIG_WRITES` and `FUSE_MAX_PAGES`.
const FLAGS: u32 = 1 << 5 | 1 << 22;
/// Most requests in the background, for reads ahead: there are none, but the kernel wants some.
const BACKGROUND: u32 = 16;

/// `FOPEN_DIRECT_IO`: nothing is kept in the page cache. `FOPEN_NOFLUSH`: `close` sends no request, hence succeeds when
/// this relay is dead; otherwise QEMU aborts, and the VM with it. `FOPEN_PARALLEL_DIRECT_WRITES`: QEMU's threads do not
/// wait for each other, which applies to writes inside the file only.
const OPEN_FLAGS: u32 = 1 | 1 << 5 | 1 << 6;

/// The length that the file shows: more than any VM.
const LENGTH: u64 = 1 << 50;

/// A regular file that its owner may write.
pub(super) const MODE: u32 = 0o100_600;

/// A request's operation and arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    Init,
    Status,
    Open,
    /// Write bytes at an offset, by the handle of an open.
    Write {
        handle: u64,
        at: u64,
        bytes: usize,
    },
    /// The last descriptor of this handle is closed.
    Release {
        handle: u64,
    },
    /// Nothing to do but to answer.
    Nothing,
    /// No answer is expected.
    Unanswered,
    /// An operation that is not served. `FUSE_FLUSH` is one: a kernel that does not know `FOPEN_NOFLUSH` then does not
    /// send it again.
    Unknown,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    /// The number that its answer carries.
    pub(super) number: u64,
    pub(super) asked: Asked,
}

/// Offset of the data in a write request.
pub(super) const DATA: usize = IN_HEADER_BYTES + WRITE_IN_BYTES;

impl Request {
    /// Parses a request; `None` if it is truncated.
    pub(super) fn parse(all: &[u8]) -> Option<Self> {
        let short = |at: usize| Some(u32::from_ne_bytes(*all.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_ne_bytes(*all.get(at..)?.first_chunk()?));
        let asked = match short(4)? {
            INIT => Asked::Init,
            GETATTR | SETATTR => Asked::Status,
            OPEN => Asked::Open,
            WRITE => {
                let bytes = short(IN_HEADER_BYTES + 16)? as usize;
                if all.len() != DATA + bytes {
                    return None;
                }
                Asked::Write {
                    handle: long(IN_HEADER_BYTES)?,
                    at: long(IN_HEADER_BYTES + 8)?,
                    bytes,
                }
            }
            RELEASE => Asked::Release {
                handle: long(IN_HEADER_BYTES)?,
            },
            FSYNC => Asked::Nothing,
            INTERRUPT | FORGET | BATCH_FORGET => Asked::Unanswered,
            _ => Asked::Unknown,
        };
        Some(Self {
            number: long(8)?,
            asked,
        })
    }
}

/// Formats a complete answer.
pub(super) fn answer(number: u64, outcome: Result<&[u8], Errno>) -> Vec<u8> {
    let (error, result) = match outcome {
        Ok(result) => (0, result),
        Err(error) => (-error.raw_os_error(), &[][..]),
    };
    let length = (OUT_HEADER_BYTES + result.len()) as u32;
    let mut all = Vec::with_capacity(length as usize);
    all.extend(length.to_ne_bytes());
    all.extend(error.to_ne_bytes());
    all.extend(number.to_ne_bytes());
    all.extend(result);
    all
}

/// Returns `fuse_init_out`.
pub(super) fn init() -> Vec<u8> {
    let pages = (WRITE_BYTES_MAX / PAGE_BYTES) as u32;
    // The file's time is in nanoseconds; no map alignment, second flags or stacking.
    let version_and_flags = [7, 31, 0, FLAGS];
    let limits = [BACKGROUND, WRITE_BYTES_MAX as u32, 1, pages];
    words(&[&version_and_flags[..], &limits, &[0; 8]].concat())
}

/// Returns `fuse_attr_out`, valid for an hour.
pub(super) fn status(user: u32, group: u32) -> Vec<u8> {
    let valid = [3600, 0, 0, 0];
    // Inode 1, blocks and times of zero; see `fuse_attr`.
    let length = [LENGTH as u32, (LENGTH >> 32) as u32];
    let number_size_and_times = [&[1, 0][..], &length, &[0; 11]].concat();
    let rest = [MODE, 1, user, group, 0, PAGE_BYTES as u32, 0];
    words(&[&valid[..], &number_size_and_times, &rest].concat())
}

/// Returns `fuse_open_out`.
pub(super) fn opened(handle: u64) -> Vec<u8> {
    [&handle.to_ne_bytes()[..], &words(&[OPEN_FLAGS, 0])].concat()
}

/// Returns `fuse_write_out`.
pub(super) fn written(bytes: usize) -> Vec<u8> {
    words(&[bytes as u32, 0])
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a `fuse_in_header` and what follows it.
    fn request(opcode: u32, arguments: &[u8]) -> Vec<u8> {
        let length = (IN_HEADER_BYTES + arguments.len()) as u32;
        let mut all = words(&[length, opcode, 7, 0]);
        all.resize(IN_HEADER_BYTES, 0);
        [all, arguments.to_vec()].concat()
    }

    fn write_of(bytes: u32, data: &[u8]) -> Vec<u8> {
        let mut arguments = [3_u64, 8192].map(u64::to_ne_bytes).concat();
        arguments.extend(bytes.to_ne_bytes());
        arguments.resize(WRITE_IN_BYTES, 0);
        request(WRITE, &[&arguments, data].concat())
    }

    #[test]
    fn a_write_has_its_handle_its_place_and_all_its_bytes() {
        let all = write_of(5, b"pages");
        let asked = Asked::Write {
            handle: 3,
            at: 8192,
            bytes: 5,
        };
        assert_eq!(Request::parse(&all), Some(Request { number: 7, asked }));
        assert_eq!(&all[DATA..], b"pages");
        for cut in 0..all.len() {
            assert_eq!(Request::parse(&all[..cut]), None, "cut at {cut}");
        }
        assert_eq!(Request::parse(&write_of(4, b"pages")), None);
        assert_eq!(Request::parse(&write_of(u32::MAX, b"pages")), None);
    }

    #[test]
    fn others_are_known_by_their_number() {
        let asked = |opcode| Request::parse(&request(opcode, &[0; 8])).unwrap().asked;
        assert_eq!(asked(INIT), Asked::Init);
        assert_eq!(asked(RELEASE), Asked::Release { handle: 0 });
        assert_eq!(asked(FORGET), Asked::Unanswered);
        assert_eq!(asked(4711), Asked::Unknown);
        let flush = 25;
        assert_eq!(asked(flush), Asked::Unknown, "or QEMU dies with us");
    }

    #[test]
    fn answers_have_the_kernels_lengths() {
        assert_eq!(init().len(), 64);
        assert_eq!(status(0, 0).len(), 104);
        assert_eq!(opened(1).len(), 16);
        assert_eq!(written(1).len(), 8);
        let refused = answer(7, Err(Errno::NOSYS));
        assert_eq!(refused.len(), OUT_HEADER_BYTES);
        assert_eq!(refused[4..8], (-38_i32).to_ne_bytes());
    }
}
