//! A device's context: the state that goes to another host, so that a device there can go on in its place.
//!
//! ```text
//!    0   8  "vrdmactx"
//!    8   4  version                                   numbers are little endian
//!   12   6  MAC address      18  2  zero
//!   20   4  records          24  4  runs of pages
//!   28  32  SHA-256 of bytes 0 to 27, and of all that follows
//!   60      records:  kind 2, number 4, length 4, bytes
//!           runs:     address 8, length 4, bytes: whole pages that the device wrote
//! ```
//! Nothing in a context is trusted: counts have bounds, lengths must fit, and a device checks its own records
//! ([`Device::resume`](crate::Device::resume)). The digest detects damage by a wire or a disk; it does not prove who
//! sent the context.

use sha2::{Digest, Sha256};
use vrdma_verbs::saved::RestoreError;
use vrdma_wire::Mac;

use crate::abi::PAGE;
use crate::config::DeviceConfig;
use crate::config_space::CONFIG_BYTES;
use crate::kept::{SavedRecord, check, config_space_of};

const MAGIC: &[u8; 8] = b"vrdmactx";
/// Version of the contexts made here. It grows with every change of the format; the contents of records have versions
/// of their own.
pub const VERSION: u32 = 1;
const DIGEST_AT: usize = 28;
const HEAD_BYTES: usize = 60;

/// Most records of one device: more than an adapter has with all objects that it may have.
pub const RECORDS_MAX: u32 = 1 << 20;

/// Most runs of pages: if each run is one page, 256 MiB.
pub const RUNS_MAX: u32 = 1 << 16;

/// A run of adjacent pages that a device wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenPages {
    /// Bus address of the first page.
    pub address: u64,
    /// Contents of the pages, whole pages.
    pub bytes: Vec<u8>,
}

/// A device's context; see the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Context {
    /// Ethernet address of the adapter.
    pub mac: Mac,
    /// Records that the device needs to go on.
    pub records: Vec<SavedRecord>,
    /// Pages whose writes QEMU has not seen.
    pub pages: Vec<WrittenPages>,
}

/// Reasons why bytes are not a usable context.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadContext {
    /// The bytes do not begin as a context does.
    #[error("this is not the context of an adapter")]
    Foreign,
    /// The context was made by another version.
    #[error(
        "the context has version {0}, and this daemon reads version {VERSION}: use the same version of vrdmad on both hosts"
    )]
    Version(u32),
    /// The digest does not match.
    #[error("the context was damaged on its way: its digest is another one")]
    Digest,
    /// More records or runs of pages than any device may have.
    #[error("the context has more records or pages than any adapter may have")]
    TooMany,
    /// The records cannot be those of this adapter.
    #[error("the context does not fit this adapter: {0}")]
    Records(RestoreError),
    /// A length or an address is impossible.
    #[error("the context is not consistent: {0}")]
    Inconsistent(&'static str),
}

impl Context {
    /// Encodes the context.
    ///
    /// # Panics
    /// If there are more than [`RECORDS_MAX`] records or [`RUNS_MAX`] runs of pages, or one of 4 GiB.
    pub fn encode(&self) -> Vec<u8> {
        let (records, runs) = (self.records.len(), self.pages.len());
        assert!(
            records <= RECORDS_MAX as usize && runs <= RUNS_MAX as usize,
            "a device has fewer"
        );
        let mut out = Vec::with_capacity(HEAD_BYTES + self.length());
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.mac.0);
        out.extend([0; 2]);
        out.extend((records as u32).to_le_bytes());
        out.extend((runs as u32).to_le_bytes());
        out.extend([0; HEAD_BYTES - DIGEST_AT]);
        for record in &self.records {
            out.extend(record.kind.to_le_bytes());
            out.extend(record.id.to_le_bytes());
            put_bytes(&mut out, &record.bytes);
        }
        for run in &self.pages {
            out.extend(run.address.to_le_bytes());
            put_bytes(&mut out, &run.bytes);
        }
        let digest = digest(&out);
        out[DIGEST_AT..HEAD_BYTES].copy_from_slice(&digest);
        out
    }

    /// Bytes after the head.
    fn length(&self) -> usize {
        let records: usize = self.records.iter().map(|it| 10 + it.bytes.len()).sum();
        let pages: usize = self.pages.iter().map(|it| 12 + it.bytes.len()).sum();
        records + pages
    }

    /// Decodes bytes from an untrusted sender.
    ///
    /// # Errors
    /// The bytes are not a complete context.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadContext> {
        let mut head = Reader(bytes);
        if head.array() != Some(*MAGIC) {
            return Err(BadContext::Foreign);
        }
        let version = head.u32().ok_or(BadContext::Foreign)?;
        if version != VERSION {
            return Err(BadContext::Version(version));
        }
        let told = bytes.get(DIGEST_AT..HEAD_BYTES).ok_or(BadContext::Digest)?;
        if told != digest(bytes) {
            return Err(BadContext::Digest);
        }
        Self::body(head, Reader(&bytes[HEAD_BYTES..])).ok_or(BadContext::Inconsistent(
            "a record or a run of pages is longer than what is left",
        ))?
    }

    /// Decodes records and runs of pages; `None` if the bytes end too early.
    fn body(mut head: Reader<'_>, mut rest: Reader<'_>) -> Option<Result<Self, BadContext>> {
        let mac = Mac(head.array()?);
        head.array::<2>()?;
        let (records, runs) = (head.u32()?, head.u32()?);
        if records > RECORDS_MAX || runs > RUNS_MAX {
            return Some(Err(BadContext::TooMany));
        }
        let records = (0..records).map(|_| rest.record());
        let records = records.collect::<Option<Vec<_>>>()?;
        let pages = (0..runs).map(|_| rest.run()).collect::<Option<Vec<_>>>()?;
        if !rest.0.is_empty() {
            return Some(Err(BadContext::Inconsistent("there is more after its end")));
        }
        if !pages.iter().all(WrittenPages::is_sound) {
            return Some(Err(BadContext::Inconsistent("a run is not of whole pages")));
        }
        let context = Self {
            mac,
            records,
            pages,
        };
        Some(match context.config_space() {
            Some(_) => Ok(context),
            None => Err(BadContext::Inconsistent(
                "the record of the device's registers is missing or damaged",
            )),
        })
    }

    /// Checks whether a device of this configuration may go on with the context, as far as possible without the guest's
    /// memory.
    ///
    /// # Errors
    /// The context is that of another adapter, or of one with more objects.
    pub fn check(&self, config: &DeviceConfig) -> Result<(), BadContext> {
        if self.mac != config.identity.mac {
            return Err(BadContext::Inconsistent(
                "it is of an adapter with another MAC address",
            ));
        }
        check(&self.records, config).map_err(BadContext::Records)
    }

    /// The device's PCI configuration space, if its registers are recorded.
    pub fn config_space(&self) -> Option<[u8; CONFIG_BYTES]> {
        config_space_of(&self.records)
    }

    /// Pages in all runs.
    pub fn page_count(&self) -> u64 {
        let bytes: usize = self.pages.iter().map(|run| run.bytes.len()).sum();
        bytes as u64 / PAGE
    }
}

impl WrittenPages {
    fn is_sound(&self) -> bool {
        let length = self.bytes.len() as u64;
        let ends = self.address.checked_add(length).is_some();
        ends && length > 0 && length.is_multiple_of(PAGE) && self.address.is_multiple_of(PAGE)
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("the caller has bounded it");
    out.extend(length.to_le_bytes());
    out.extend(bytes);
}

/// The digest of a context, whatever its digest field holds.
fn digest(bytes: &[u8]) -> [u8; 32] {
    let digest = Sha256::new_with_prefix(&bytes[..DIGEST_AT]);
    digest.chain_update(&bytes[HEAD_BYTES..]).finalize().into()
}

/// The bytes that are still to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.u32()?;
        self.take(length as usize).map(<[u8]>::to_vec)
    }

    fn record(&mut self) -> Option<SavedRecord> {
        Some(SavedRecord {
            kind: self.array().map(u16::from_le_bytes)?,
            id: self.u32()?,
            bytes: self.bytes()?,
        })
    }

    fn run(&mut self) -> Option<WrittenPages> {
        Some(WrittenPages {
            address: self.array().map(u64::from_le_bytes)?,
            bytes: self.bytes()?,
        })
    }
}

#[cfg(test)]
mod tests;
