//! Headers of known length between the sections of a stream.

use super::Fault;
use super::fault::text;

/// `QEMU_VM_FILE_MAGIC` and `QEMU_VM_FILE_VERSION`.
const MAGIC: &[u8] = b"QEVM\0\0\0\x03";

// Section types (migration/savevm.h).
const END: u8 = 0x00;
const BEGIN: u8 = 0x01;
const PART: u8 = 0x02;
const LAST_PART: u8 = 0x03;
const WHOLE: u8 = 0x04;
const DETAIL: u8 = 0x05;
const CONFIGURATION: u8 = 0x07;
const COMMAND: u8 = 0x08;
const FOOTER: u8 = 0x7e;

// Commands (enum qemu_vm_cmd).
const POSTCOPY_ADVISE: u16 = 3;
const POSTCOPY_RAM_DISCARD: u16 = 6;
const PACKAGED: u16 = 8;

/// The version of the memory's section.
const MEMORY_VERSION: u32 = 4;

/// 2^12 is 4096 bytes.
const PAGE_BITS: u32 = 12;

/// The kind of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Magic,
    Section,
    /// A part of the configuration, or the first byte of a section.
    Detail,
    Capability {
        left: u32,
    },
    /// The body of the announcement of post-copy.
    Advice {
        bytes: u16,
    },
    /// A block in the list of blocks.
    Block,
    Page,
}

/// A parsed header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Header<'a> {
    Beginning,
    Configuration { bytes: u64 },
    Detail { bytes: u64 },
    NoDetail,
    Capabilities { count: u32 },
    Capability { name: &'a [u8], left: u32 },
    Command { bytes: u16, is_advice: bool },
    Advice,
    Begin { section: u32, name: &'a [u8] },
    Part { section: u32, is_last: bool },
    Footer,
    End,
    PostCopy,
}

impl Header<'_> {
    /// Whether the part of the stream that is parsed ends before this header.
    pub(super) fn is_end_of_ours(&self) -> bool {
        matches!(self, Self::End | Self::PostCopy)
    }
}

/// Length of a header, as far as its first bytes tell.
pub(super) fn bytes(kind: Kind, held: &[u8]) -> Result<usize, Fault> {
    let named = |at: usize, behind: usize| match held.get(at) {
        Some(length) => at + 1 + usize::from(*length) + behind,
        None => at + 1,
    };
    Ok(match kind {
        Kind::Magic => MAGIC.len(),
        Kind::Advice { bytes } => bytes.into(),
        Kind::Capability { .. } => named(0, 0),
        Kind::Detail => match held.first() {
            Some(&DETAIL) => match detail(held) {
                // The array's length.
                Some(b"configuration/capabilities" | b"configuration/target-page-bits") => {
                    named(1, 8)
                }
                _ => named(1, 4),
            },
            _ => 1,
        },
        Kind::Section => match held.first() {
            None | Some(&END) => 1,
            Some(&(BEGIN | WHOLE)) => named(5, 8),
            Some(&(PART | LAST_PART | FOOTER | CONFIGURATION | COMMAND)) => 5,
            Some(kind) => return Err(Fault::UnknownKind(*kind)),
        },
        Kind::Block | Kind::Page => 1,
    })
}

/// The name of a part of the configuration, if it is complete.
fn detail(held: &[u8]) -> Option<&[u8]> {
    let length = usize::from(*held.get(1)?);
    held.get(2..2 + length)
}

impl<'a> Header<'a> {
    /// Parses a complete header.
    pub(super) fn parse(kind: Kind, held: &'a [u8]) -> Result<Self, Fault> {
        match kind {
            Kind::Magic => match held == MAGIC {
                true => Ok(Self::Beginning),
                false => Err(Fault::NotAStream),
            },
            Kind::Detail => Self::detail(held),
            Kind::Capability { left } => Ok(Self::Capability {
                name: held.get(1..).unwrap_or_default(),
                left: left.saturating_sub(1),
            }),
            Kind::Advice { .. } => Ok(Self::Advice),
            Kind::Section | Kind::Block | Kind::Page => Self::section(held),
        }
    }

    fn section(held: &'a [u8]) -> Result<Self, Fault> {
        let number = word(held, 1);
        Ok(match held.first() {
            Some(&END) => Self::End,
            Some(&FOOTER) => Self::Footer,
            Some(&CONFIGURATION) => Self::Configuration {
                bytes: number.into(),
            },
            Some(&COMMAND) => Self::command((number >> 16) as u16, number as u16),
            Some(&kind @ (PART | LAST_PART)) => Self::Part {
                section: number,
                is_last: kind == LAST_PART,
            },
            Some(&kind @ (BEGIN | WHOLE)) => {
                let length = usize::from(held.get(5).copied().unwrap_or_default());
                let name = held.get(6..6 + length).unwrap_or_default();
                if kind == WHOLE {
                    return Err(Fault::EarlyState(text(name)));
                }
                let version = word(held, 6 + length + 4);
                if name == b"ram" && version != MEMORY_VERSION {
                    return Err(Fault::MemoryVersion(version));
                }
                Self::Begin {
                    section: number,
                    name,
                }
            }
            kind => return Err(Fault::UnknownKind(kind.copied().unwrap_or_default())),
        })
    }

    fn command(number: u16, bytes: u16) -> Self {
        match number {
            POSTCOPY_RAM_DISCARD | PACKAGED => Self::PostCopy,
            _ => Self::Command {
                bytes,
                is_advice: number == POSTCOPY_ADVISE,
            },
        }
    }

    fn detail(held: &'a [u8]) -> Result<Self, Fault> {
        if held.first() != Some(&DETAIL) {
            return Ok(Self::NoDetail);
        }
        let name = detail(held).unwrap_or_default();
        let value = word(held, held.len().saturating_sub(4));
        match name {
            b"configuration/capabilities" => Ok(Self::Capabilities { count: value }),
            b"configuration/target-page-bits" if value == PAGE_BITS => {
                Ok(Self::Detail { bytes: 0 })
            }
            b"configuration/target-page-bits" => Err(Fault::PageBits(value)),
            b"configuration/uuid" => Ok(Self::Detail { bytes: 16 }),
            name => Err(Fault::UnknownDetail(text(name))),
        }
    }
}

/// Reads a word of a complete header.
pub(super) fn word(held: &[u8], at: usize) -> u32 {
    let bytes = held.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
