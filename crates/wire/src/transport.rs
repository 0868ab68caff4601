//! BTH and extension headers as one consistent value.

use crate::bth::Bth;
use crate::extension::Extension;
use crate::opcode::OpcodeInfo;

/// Headers of a packet: a BTH with a known opcode, and exactly the headers that this opcode carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transport {
    bth: Bth,
    extension: Extension,
    info: &'static OpcodeInfo,
}

impl Transport {
    /// Combines the headers; `None` if the opcode is unknown or carries other headers.
    pub fn new(bth: Bth, extension: Extension) -> Option<Self> {
        let info = bth.opcode.info()?;
        (info.carries == extension.carries()).then_some(Self {
            bth,
            extension,
            info,
        })
    }

    /// Returns the BTH.
    pub const fn bth(&self) -> &Bth {
        &self.bth
    }

    /// Returns the extension headers.
    pub const fn extension(&self) -> &Extension {
        &self.extension
    }

    /// Returns the table's row of the opcode.
    pub const fn info(&self) -> &'static OpcodeInfo {
        self.info
    }

    /// Returns the bytes from BTH to payload.
    pub const fn header_len(&self) -> usize {
        Bth::LEN + self.info.carries.len()
    }
}
