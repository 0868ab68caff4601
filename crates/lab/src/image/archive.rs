//! A cpio archive in the "newc" format, which the kernel unpacks as initramfs
//! (kernel documentation, driver-api/early-userspace/buffer-format).

use std::fmt::Write as _;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive under construction. Everything in it belongs to root.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub(super) fn folder(&mut self, path: &str) {
        self.entry(path, DIRECTORY, &[]);
    }

    pub(super) fn program(&mut self, path: &str, contents: &[u8]) {
        self.entry(path, PROGRAM, contents);
    }

    /// The archive with its end mark.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) {
        let size = u32::try_from(contents.len()).expect("initramfs files are far below 4 GiB");
        let name_size = u32::try_from(path.len() + 1).expect("paths are short");
        self.entries += 1;
        // inode, mode, owner, group, links, time, size, device, rdev (2 each), name size, check
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            0,
            0,
            name_size,
            0,
        ];
        let mut header = "070701".to_owned();
        for field in fields {
            write!(header, "{field:08x}").expect("a String takes everything");
        }
        self.bytes
            .extend(header.bytes().chain(path.bytes()).chain([0]));
        self.pad();
        self.bytes.extend(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_ended() {
        let mut archive = Archive::default();
        archive.folder("lab");
        archive.program("lab/x", b"12345");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[110..114], b"lab\0");
        let second = (110_usize + 4).next_multiple_of(4);
        assert_eq!(&bytes[second + 54..second + 62], b"00000005");
        assert!(bytes.windows(11).any(|window| window == b"TRAILER!!!\0"));
    }
}
