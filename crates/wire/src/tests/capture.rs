//! Reads the captures in `testdata/` (pcap with microseconds, little-endian, Ethernet).

use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, fs};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// One frame and the capture that it is from.
#[derive(Clone, Debug)]
pub(super) struct Captured {
    pub(super) origin: String,
    pub(super) frame: Vec<u8>,
}

pub(super) fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// Returns the frames of all captures.
pub(super) fn all() -> Vec<Captured> {
    let mut files: Vec<_> = fs::read_dir(testdata())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "pcap")
        })
        .collect();
    files.sort();
    files.iter().flat_map(|path| frames(path)).collect()
}

fn frames(path: &Path) -> Vec<Captured> {
    let name = path.file_name().unwrap().to_string_lossy().to_string();
    let file = fs::read(path).unwrap();
    assert_eq!(file[..4], 0xa1b2_c3d4_u32.to_le_bytes(), "{name}");
    let mut rest = &file[FILE_HEADER..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (header, data) = rest.split_at(RECORD_HEADER);
        let len = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let (frame, after) = data.split_at(len);
        frames.push(Captured {
            origin: format!("{name}, frame {}", frames.len() + 1),
            frame: frame.to_vec(),
        });
        rest = after;
    }
    frames
}
