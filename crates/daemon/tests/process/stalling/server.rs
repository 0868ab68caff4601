//! A file system with one file. The file's status is known, but its bytes do not come before the server gives them or
//! fails all requests. Until then, a `close` does not end for any process but the server.
//!
//! A process that dies with such a file open would wait for its own dead server: close the file early.
//!
//! The server needs `/dev/fuse`, and a user and a mount namespace of its own; linux/fuse.h has the layouts.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use super::PATIENCE;

/// Bytes of the file.
pub(super) const LENGTH: u64 = 1 << 16;

/// Bytes of the request buffer: the kernel wants room for the longest request.
const REQUEST_MAX: usize = 1 << 17;
/// `fuse_in_header` has the opcode at 4, the request's number at 8 and the caller's thread at 32.
const IN_HEADER: usize = 40;

const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const FLUSH: u32 = 25;
const INIT: u32 = 26;

/// `fuse_init_out` of version 7.31.
const INIT_ANSWER: [u32; 16] = [7, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A regular file that everybody may read and write.
const MODE: u32 = 0o100_666;

/// Server of the file.
pub(super) struct Server {
    device: File,
    contents: Mutex<Contents>,
    asked: Condvar,
}

/// State of requests for bytes.
enum Contents {
    /// Requests wait.
    Withheld(Vec<Asked>),
    /// Requests fail.
    Lost,
    /// Requests succeed; all bytes have this value.
    There(u8),
}

/// A request for bytes.
struct Asked {
    number: [u32; 2],
    bytes: usize,
}

/// Mounts the file system over the file `at`, and serves it for as long as this process lives.
pub(super) fn mount_over(at: &Path) -> Arc<Server> {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    let device = device.unwrap();
    let data = format!(
        "fd={},rootmode=100000,user_id=0,group_id=0",
        device.as_raw_fd()
    );
    let data = CString::new(data).unwrap();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("never", at, "fuse", flags, &*data).unwrap();
    let server = Arc::new(Server {
        device,
        contents: Mutex::new(Contents::Withheld(Vec::new())),
        asked: Condvar::new(),
    });
    let serving = Arc::clone(&server);
    std::thread::spawn(move || serving.serve());
    server
}

impl Server {
    fn serve(&self) {
        let mut buffer = vec![0; REQUEST_MAX];
        loop {
            let mut asked = [PollFd::new(&self.device, PollFlags::IN)];
            if poll(&mut asked, Some(&PATIENCE)).unwrap() == 0 {
                // The test has failed, and may be waiting for this process.
                self.let_go();
            }
            match (&self.device).read(&mut buffer) {
                Ok(length) => self.hear(&buffer[..length]),
                Err(_) => return,
            }
        }
    }

    fn hear(&self, request: &[u8]) {
        assert!(request.len() >= IN_HEADER);
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let number = [word(8), word(12)];
        match word(4) {
            INIT => self.answer(number, Ok(words(&INIT_ANSWER))),
            GETATTR => self.answer(number, Ok([words(&[3600, 0, 0, 0]), status()].concat())),
            OPEN => self.answer(number, Ok(words(&[1, 0, 0, 0]))),
            FLUSH if is_ours(word(32)) => self.answer(number, Ok(Vec::new())),
            // `fuse_read_in` has the length behind the file's handle and the offset.
            READ => self.take(Asked {
                number,
                bytes: word(IN_HEADER + 16) as usize,
            }),
            STATFS | FLUSH => self.take(Asked { number, bytes: 0 }),
            _ => self.answer(number, Err(Errno::NOSYS)),
        }
    }

    fn take(&self, asked: Asked) {
        let mut contents = self.contents.lock().unwrap();
        match &mut *contents {
            Contents::Withheld(waiting) => waiting.push(asked),
            Contents::Lost => self.answer(asked.number, Err(Errno::IO)),
            Contents::There(byte) => self.answer(asked.number, Ok(vec![*byte; asked.bytes])),
        }
        self.asked.notify_all();
    }

    /// Returns once a request waits.
    pub(super) fn await_request(&self) {
        let contents = self.contents.lock().unwrap();
        let nobody =
            |it: &mut Contents| matches!(it, Contents::Withheld(waiting) if waiting.is_empty());
        let _waits = self.asked.wait_while(contents, nobody).unwrap();
    }

    /// Fails all requests, those that wait and later ones.
    pub(super) fn let_go(&self) {
        self.become_of_all(Contents::Lost);
    }

    /// Answers all requests, those that wait and later ones.
    pub(super) fn give(&self, byte: u8) {
        self.become_of_all(Contents::There(byte));
    }

    fn become_of_all(&self, of_all: Contents) {
        let before = std::mem::replace(&mut *self.contents.lock().unwrap(), of_all);
        if let Contents::Withheld(waiting) = before {
            waiting.into_iter().for_each(|asked| self.take(asked));
        }
    }

    fn answer(&self, number: [u32; 2], answer: Result<Vec<u8>, Errno>) {
        let error = answer
            .as_ref()
            .map_or_else(|errno| -errno.raw_os_error(), |_| 0);
        let body = answer.unwrap_or_default();
        let length = 16 + body.len() as u32;
        let mut out = words(&[length, error as u32, number[0], number[1]]);
        out.extend(body);
        // The kernel takes no answer to a request that was interrupted meanwhile.
        let _taken = (&self.device).write(&out);
    }
}

/// Whether a thread belongs to this process.
fn is_ours(thread: u32) -> bool {
    Path::new(&format!("/proc/self/task/{thread}")).exists()
}

/// `fuse_attr`.
fn status() -> Vec<u8> {
    let mut status = vec![0; 88];
    status[0] = 1;
    status[8..16].copy_from_slice(&LENGTH.to_ne_bytes());
    status[60..64].copy_from_slice(&MODE.to_ne_bytes());
    status[64] = 1;
    status[80..84].copy_from_slice(&4096u32.to_ne_bytes());
    status
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
