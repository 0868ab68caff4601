//! BTH and extension headers as one value that agrees with itself.

use crate::bth::Bth;
use crate::extension::Extension;
use crate::opcode::OpcodeInfo;

/// What a packet says: a BTH of a known opcode, and just the headers that this opcode carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transport {
    bth: Bth,
    extension: Extension,
    info: &'static OpcodeInfo,
}

impl Transport {
    /// `None` if the opcode is unknown or carries other headers.
    pub fn new(bth: Bth, extension: Extension) -> Option<Self> {
        let info = bth.opcode.info()?;
        (info.carries == extension.carries()).then_some(Self {
            bth,
            extension,
            info,
        })
    }

    /// The BTH.
    pub const fn bth(&self) -> &Bth {
        &self.bth
    }

    /// The extension headers.
    pub const fn extension(&self) -> &Extension {
        &self.extension
    }

    /// What the table says of the opcode.
    pub const fn info(&self) -> &'static OpcodeInfo {
        self.info
    }

    /// Bytes from BTH to payload.
    pub const fn header_len(&self) -> usize {
        Bth::LEN + self.info.carries.len()
    }
}
