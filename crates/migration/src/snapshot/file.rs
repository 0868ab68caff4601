//! The adapter's file of a snapshot.
//!
//! ```text
//!    0   8  "vrdmasnp"
//!    8   4  version                                   numbers are little endian
//!   12   1  1 if the guest's driver had MSI-X on, else 0
//!   13   3  PCI address of the adapter: bus, slot, function
//!   16  48  QEMU's MSI-X table then
//!   64   8  bytes of the file with the VM's memory    72  32  SHA-256 of its last MiB
//!  104  32  SHA-256 of bytes 0 to 103
//!  136      the adapter's context, which has a version and a digest of its own
//! ```
//! The end of QEMU's file has the processors' registers, so a memory file of another moment is noticed. Only the daemon
//! looks into the context.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use sha2::{Digest, Sha256};
use vrdma_api::{CONTEXT_BYTES_MAX, MSIX_TABLE_WORDS};

use crate::error::Cause;
use crate::pci::Address;

const MAGIC: &[u8; 8] = b"vrdmasnp";
const VERSION: u32 = 1;
const FACTS_AT: usize = 12;
const TABLE_AT: usize = 16;
const MEMORY_AT: usize = 64;
const DIGEST_AT: usize = 104;
const HEAD_BYTES: usize = 136;

/// Bytes of the memory file that are digested: enough for the states of all devices.
const TAIL_BYTES: u64 = 1 << 20;

/// What distinguishes one memory file from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MemoryMark {
    pub(super) bytes: u64,
    tail: [u8; 32],
}

impl MemoryMark {
    pub(super) fn of(file: &mut File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))?;
        let mut tail = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut tail)?;
        let tail = Sha256::digest(&tail).into();
        Ok(Self { bytes, tail })
    }
}

/// Content of the adapter's file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Contents {
    pub(super) address: Address,
    pub(super) msix_table: Option<[u32; MSIX_TABLE_WORDS]>,
    pub(super) memory: MemoryMark,
    pub(super) context: Vec<u8>,
}

impl Contents {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.context.len());
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        let Address {
            bus,
            slot,
            function,
        } = self.address;
        out.extend([u8::from(self.msix_table.is_some()), bus, slot, function]);
        let table = self.msix_table.unwrap_or_default();
        out.extend(table.iter().flat_map(|word| word.to_le_bytes()));
        out.extend(self.memory.bytes.to_le_bytes());
        out.extend(self.memory.tail);
        let digest = Sha256::digest(&out);
        out.extend(digest);
        out.extend(&self.context);
        out
    }

    /// Reads a file that anybody may have written. The error names the file.
    pub(super) fn read(path: &Path) -> Result<Self, Cause> {
        let name = path.display();
        let unreadable = |error: io::Error| Cause::new(format!("cannot read {name}: {error}"));
        let file = File::open(path).map_err(unreadable)?;
        let limit = (HEAD_BYTES + CONTEXT_BYTES_MAX) as u64;
        if file.metadata().map_err(unreadable)?.len() > limit {
            return Err(Cause::new(format!(
                "{name} is longer than any adapter's file; name the one that `vrdma adapter save` wrote"
            )));
        }
        let mut bytes = Vec::new();
        // A file that grows meanwhile is cut, and the context's digest shows it.
        file.take(limit)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        Self::decode(&bytes).map_err(|what| Cause::new(format!("{name} {what}")))
    }

    /// Decodes a file. The error says what is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        const FOREIGN: &str = "is no file that `vrdma adapter save` wrote";
        const DAMAGED: &str =
            "is damaged or cut off: its digest is another one; take another snapshot";
        if !bytes.starts_with(MAGIC) {
            return Err(FOREIGN.to_owned());
        }
        let version = word(bytes, 8).ok_or(DAMAGED)?;
        if version != VERSION {
            return Err(format!(
                "has version {version}, and this vrdma reads version {VERSION}: use the vrdma that wrote it"
            ));
        }
        let (head, context) = bytes.split_at_checked(HEAD_BYTES).ok_or(DAMAGED)?;
        if Sha256::digest(&head[..DIGEST_AT]).as_slice() != &head[DIGEST_AT..] {
            return Err(DAMAGED.to_owned());
        }
        let table = head[TABLE_AT..MEMORY_AT].chunks_exact(4);
        let table: Vec<u32> = table.filter_map(|it| word(it, 0)).collect();
        let (length, tail) = head[MEMORY_AT..DIGEST_AT].split_at(8);
        let memory = MemoryMark {
            bytes: u64::from_le_bytes(length.try_into().map_err(|_| DAMAGED)?),
            tail: tail.try_into().map_err(|_| DAMAGED)?,
        };
        let table = table.try_into().map_err(|_| DAMAGED)?;
        let [has_table, bus, slot, function] =
            head[FACTS_AT..TABLE_AT].try_into().map_err(|_| DAMAGED)?;
        if has_table > 1 {
            return Err(DAMAGED.to_owned());
        }
        Ok(Self {
            address: Address {
                bus,
                slot,
                function,
            },
            msix_table: (has_table == 1).then_some(table),
            memory,
            context: context.to_vec(),
        })
    }
}

/// Writes the right digest into bytes that are long enough for one.
#[cfg(feature = "fuzz")]
pub(crate) fn seal(bytes: &mut [u8]) {
    if let Some((facts, rest)) = bytes.split_at_mut_checked(DIGEST_AT)
        && let Some(digest) = rest.get_mut(..HEAD_BYTES - DIGEST_AT)
    {
        digest.copy_from_slice(&Sha256::digest(facts));
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn contents() -> Contents {
        Contents {
            address: Address {
                bus: 1,
                slot: 5,
                function: 2,
            },
            msix_table: Some([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
            memory: MemoryMark {
                bytes: 1 << 40,
                tail: [7; 32],
            },
            context: b"context".to_vec(),
        }
    }

    fn file() -> std::path::PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        folder.join(format!("corpus/snapshot{VERSION}.bin"))
    }

    /// A kept file of this version can be read.
    #[test]
    fn a_file_of_this_version_is_read() {
        assert_eq!(Contents::read(&file()), Ok(contents()));
    }

    #[test]
    #[ignore = "writes a file, for whoever has raised the version"]
    fn write_the_corpus() {
        fs::write(file(), contents().encode()).unwrap();
    }

    #[test]
    fn what_was_written_is_read_again() {
        let mut contents = contents();
        assert_eq!(Contents::decode(&contents.encode()), Ok(contents.clone()));
        contents.msix_table = None;
        assert_eq!(Contents::decode(&contents.encode()), Ok(contents));
    }

    #[test]
    fn every_byte_of_the_head_counts() {
        let bytes = contents().encode();
        for at in 0..HEAD_BYTES {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let refused = Contents::decode(&damaged).unwrap_err();
            let expected = match at {
                0..8 => "is no file",
                8..12 => "has version",
                _ => "is damaged",
            };
            assert!(refused.starts_with(expected), "{at}: {refused}");
        }
        for length in 0..HEAD_BYTES {
            Contents::decode(&bytes[..length]).unwrap_err();
        }
    }

    #[test]
    fn what_cannot_be_one_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let refused = |path: &Path| Contents::read(path).unwrap_err().to_string();
        let sentence = refused(&path);
        assert!(sentence.contains("No such file"), "{sentence}");
        fs::write(&path, contents().encode()).unwrap();
        assert_eq!(Contents::read(&path), Ok(contents()));
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len((HEAD_BYTES + CONTEXT_BYTES_MAX + 1) as u64)
            .unwrap();
        let sentence = refused(&path);
        assert!(sentence.contains("is longer than"), "{sentence}");
    }

    #[test]
    fn a_memory_of_another_moment_is_another_one() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(3 << 20).unwrap();
        let one = MemoryMark::of(&mut file).unwrap();
        assert_eq!(one.bytes, 3 << 20);
        assert_eq!(MemoryMark::of(&mut file).unwrap(), one);
        use std::os::unix::fs::FileExt;
        file.write_all_at(&[1], (3 << 20) - 5).unwrap();
        assert_ne!(MemoryMark::of(&mut file).unwrap(), one);
        file.set_len(0).unwrap();
        assert_eq!(MemoryMark::of(&mut file).unwrap().bytes, 0);
    }
}
