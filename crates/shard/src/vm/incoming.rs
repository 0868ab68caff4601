//! A QEMU that was started to take a migrating VM.
//!
//! QEMU neither migrates a `vfio-user-pci` device nor refuses to migrate without it: the guest's adapter is dead
//! afterwards, and nobody says so. `vrdma migrate` sets the adapter `away` at the destination before that QEMU gets its
//! VM; a QEMU that connects to an adapter that is not away waits for a migration by somebody else.

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;

use vrdma_process::Caller;

/// Most bytes of a command line that are looked at: those of QEMU have some kilobytes.
const BYTES_MAX: u64 = 64 << 10;

/// QEMU's option, with one dash of the possible two.
const OPTION: &[u8] = b"-incoming";

/// Whether the process at the other end of a socket is such a QEMU, as far as that can be seen.
pub(super) fn is_expected(socket: BorrowedFd<'_>) -> bool {
    let pid = Caller::at(socket).ok().and_then(|caller| caller.pid());
    let line = pid.and_then(|pid| {
        let file = File::open(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
        let mut line = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut line).ok()?;
        Some(line)
    });
    line.is_some_and(|line| has_option(&line))
}

fn has_option(line: &[u8]) -> bool {
    let mut arguments = line.split(|byte| *byte == 0);
    arguments.any(|argument| argument == OPTION || argument.strip_prefix(b"-") == Some(OPTION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_an_argument_of_its_own() {
        assert!(has_option(b"qemu-system-x86_64\0-S\0-incoming\0defer\0"));
        assert!(has_option(b"qemu\0--incoming\0tcp:0:4444\0"));
        for line in [
            &b"qemu\0-name\0x-incoming\0"[..],
            b"qemu\0-incomings\0",
            b"",
        ] {
            assert!(!has_option(line));
        }
    }
}
