//! Registers of BAR 1, 32 bits each (`pvrdma_dev_api.h`, `PVRDMA_REG_*`).

/// A register, by its offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Register {
    /// Read: device version.
    Version = 0x00,
    /// Write: low half of the shared region's address.
    DsrLow = 0x04,
    /// Write: high half; the device then reads the region.
    DsrHigh = 0x08,
    /// Write: a [`Control`] value.
    Control = 0x0c,
    /// Write 0: execute the command in the command slot.
    Request = 0x10,
    /// Read: outcome of the last control or request write, 0 is success.
    Error = 0x14,
    /// Read and clear: interrupt causes.
    InterruptCause = 0x18,
    /// Read and write: masked interrupt causes.
    InterruptMask = 0x1c,
    /// Read and write: low half of the MAC.
    MacLow = 0x20,
    /// Read and write: high half of the MAC.
    MacHigh = 0x24,
}

impl Register {
    /// The register at `offset` of BAR 1.
    pub const fn at(offset: u64) -> Option<Self> {
        Some(match offset {
            0x00 => Self::Version,
            0x04 => Self::DsrLow,
            0x08 => Self::DsrHigh,
            0x0c => Self::Control,
            0x10 => Self::Request,
            0x14 => Self::Error,
            0x18 => Self::InterruptCause,
            0x1c => Self::InterruptMask,
            0x20 => Self::MacLow,
            0x24 => Self::MacHigh,
            _ => return None,
        })
    }

    /// The register's offset in BAR 1.
    pub const fn offset(self) -> u64 {
        self as u64
    }
}

/// Values of [`Register::Control`] (`PVRDMA_DEVICE_CTL_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Control {
    /// Start operating.
    Activate = 0,
    /// The paired network device came up.
    Unquiesce = 1,
    /// Forget everything.
    Reset = 2,
}

impl Control {
    /// The value that `code` stands for.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Activate,
            1 => Self::Unquiesce,
            2 => Self::Reset,
            _ => return None,
        })
    }
}

/// Interrupt vectors; bit `1 << vector` of the cause and mask registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Vector {
    /// A command's response is in its slot.
    Response = 0,
    /// The event ring got an entry.
    Event = 1,
    /// The completion notification ring got an entry.
    Completion = 2,
}

impl Vector {
    /// Number of vectors that the driver asks for (`PVRDMA_MAX_INTERRUPTS`).
    pub const COUNT: u16 = 3;

    /// The vector's bit.
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}
