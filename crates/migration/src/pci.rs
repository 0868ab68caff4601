//! The adapter's PCI function in commands of QEMU's monitor: pure, no I/O.
//!
//! ```text
//!   config space of the source ──► where its MSI-X table lies ──► "xp /12wx ADDRESS"
//!                              `─► port writes that give QEMU of the destination the same
//! ```
//!
//! Stock QEMU migrates no state of `vfio-user-pci`: at the destination BARs are unmapped and MSI-X is off. All that
//! QEMU itself keeps of the function results from writes to the config space, which the ports 0xcf8 and 0xcfc reach
//! (PCI 3.0 section 3.2.2.3.2), and from the MSI-X table, which lies at BAR 0. Checked with QEMU 11.1.3.

use std::fmt;

use vrdma_api::MSIX_TABLE_WORDS;

/// VMware's vendor number, and the adapter's device number in the upper half, as at offset 0 of the config space.
pub(crate) const IDENTITY: u32 = 0x0820_15ad;

/// Size of a function's config space, without the extension of PCI Express.
const CONFIG_BYTES: usize = 256;

const COMMAND: u8 = 0x04;
const BARS: [u8; 4] = [0x10, 0x14, 0x18, 0x1c];
const INTERRUPT_LINE: u8 = 0x3c;
const MSIX: u8 = 0x40;
const MSIX_CONTROL: u8 = 0x42;

/// COMMAND bit 1: the function answers to memory accesses (PCI 3.0 section 6.2.2).
const MEMORY_DECODING: u16 = 1 << 1;
/// Capability number of MSI-X, and its enable bit (PCI 3.0 section 6.8.2).
const MSIX_CAPABILITY: u8 = 0x11;
const MSIX_ENABLE: u16 = 1 << 15;
/// Lower bits of a memory BAR, which do not belong to the address.
const BAR_FLAGS: u32 = 0xf;

const ADDRESS_PORT: u16 = 0xcf8;
const DATA_PORT: u16 = 0xcfc;

/// Place of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) bus: u8,
    pub(crate) slot: u8,
    pub(crate) function: u8,
}

impl Address {
    /// Makes the write to the address port that selects a register.
    fn select(self, register: u8) -> PortWrite {
        let place = u32::from(self.bus) << 16
            | u32::from(self.slot & 0x1f) << 11
            | u32::from(self.function & 0x7) << 8;
        PortWrite::latch(1 << 31 | place | u32::from(register & 0xfc))
    }

    /// Makes the write that selects the register with the function's vendor and device.
    pub(crate) fn select_identity(self) -> PortWrite {
        self.select(0)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{:x}", self.bus, self.slot, self.function)
    }
}

/// Width of an access. QEMU's monitor calls 1, 2 and 4 bytes `b`, `h` and `w`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Width {
    Byte,
    Half,
    Word,
}

/// A write to an I/O port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PortWrite {
    width: Width,
    port: u16,
    value: u32,
}

impl PortWrite {
    /// Makes a write to the address port, which keeps it: the guest may be between its two accesses.
    pub(crate) fn latch(value: u32) -> Self {
        Self {
            width: Width::Word,
            port: ADDRESS_PORT,
            value,
        }
    }
}

/// The write as a command of the monitor.
impl fmt::Display for PortWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, port, value } = self;
        let width = match width {
            Width::Byte => 'b',
            Width::Half => 'h',
            Width::Word => 'w',
        };
        write!(f, "o/{width} {port:#x} {value:#x}")
    }
}

/// The monitor's command that reads the address port.
pub(crate) const READ_LATCH: &str = "i/w 0xcf8";
/// The monitor's command that reads the selected register.
pub(crate) const READ_DATA: &str = "i/w 0xcfc";

/// Parses the output of `i`: `portl[0x0cf8] = 0x8001f800`.
pub(crate) fn port_value(said: &str) -> Option<u32> {
    let (port, value) = said.trim().split_once(" = ")?;
    port.starts_with("port").then(|| hexadecimal(value))?
}

/// The monitor's command that reads an MSI-X table.
pub(crate) fn read_table(address: u32) -> String {
    format!("xp /{MSIX_TABLE_WORDS}wx {address:#x}")
}

/// Parses the output of `xp`: lines of four words after their address. For unmapped memory, it is a sentence instead.
pub(crate) fn table(said: &str) -> Option<[u32; MSIX_TABLE_WORDS]> {
    let mut words = Vec::with_capacity(MSIX_TABLE_WORDS);
    for line in said.lines().filter(|line| !line.trim().is_empty()) {
        let (_, values) = line.split_once(": ")?;
        for value in values.split_whitespace() {
            words.push(hexadecimal(value)?);
        }
    }
    words.try_into().ok()
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// A function's config space.
#[derive(PartialEq, Eq)]
pub(crate) struct ConfigSpace([u8; CONFIG_BYTES]);

impl ConfigSpace {
    /// Takes the bytes of a config space; `None` if their length is wrong.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns the address of the MSI-X table, if the guest's driver has switched it on.
    pub(crate) fn msix_table(&self) -> Option<u32> {
        let decodes = self.half(COMMAND) & MEMORY_DECODING != 0;
        let is_on = self.has_msix() && self.half(MSIX_CONTROL) & MSIX_ENABLE != 0;
        (decodes && is_on).then(|| self.bar_0())
    }

    /// Returns the guest address of BAR 0, whether or not it is switched on.
    pub(crate) fn bar_0(&self) -> u32 {
        self.word(BARS[0]) & !BAR_FLAGS
    }

    /// Returns the writes that give QEMU the same configuration. COMMAND comes after the BARs, which it maps, and MSI-X
    /// control last: QEMU then sets up its vectors with a function that already answers.
    pub(crate) fn replay(&self, address: Address) -> Vec<PortWrite> {
        let mut data: Vec<(u8, Width)> = BARS.map(|bar| (bar, Width::Word)).to_vec();
        data.push((INTERRUPT_LINE, Width::Byte));
        data.push((COMMAND, Width::Half));
        if self.has_msix() {
            data.push((MSIX_CONTROL, Width::Half));
        }
        let both = |(register, width)| [address.select(register), self.write(register, width)];
        data.into_iter().flat_map(both).collect()
    }

    fn write(&self, register: u8, width: Width) -> PortWrite {
        PortWrite {
            width,
            port: DATA_PORT + u16::from(register & 3),
            value: match width {
                Width::Byte => self.0[usize::from(register)].into(),
                Width::Half => self.half(register).into(),
                Width::Word => self.word(register),
            },
        }
    }

    fn has_msix(&self) -> bool {
        self.0[usize::from(MSIX)] == MSIX_CAPABILITY
    }

    fn half(&self, at: u8) -> u16 {
        let at = usize::from(at);
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn word(&self, at: u8) -> u32 {
        u32::from(self.half(at)) | u32::from(self.half(at + 2)) << 16
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const PLACE: Address = Address {
        bus: 0,
        slot: 5,
        function: 1,
    };

    /// Makes a config space as a guest's driver leaves it.
    pub(crate) fn config_space() -> Vec<u8> {
        let mut bytes = vec![0; CONFIG_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &IDENTITY.to_le_bytes());
        put(0x04, &[0x06, 0x04]);
        put(0x10, &0xfebd_4000_u32.to_le_bytes());
        put(0x14, &0xfebd_5000_u32.to_le_bytes());
        put(0x18, &0xfe00_000c_u32.to_le_bytes());
        put(0x3c, &[11]);
        put(0x40, &[0x11, 0x00, 0x02, 0x80]);
        bytes
    }

    #[test]
    fn the_table_is_where_bar_0_is_if_msix_is_on() {
        let table = |change: fn(&mut Vec<u8>)| {
            let mut bytes = config_space();
            change(&mut bytes);
            ConfigSpace::from_bytes(&bytes).unwrap().msix_table()
        };
        assert_eq!(table(|_| ()), Some(0xfebd_4000));
        assert_eq!(table(|bytes| bytes[0x10] |= 0x8), Some(0xfebd_4000));
        assert_eq!(table(|bytes| bytes[0x04] = 0x04), None);
        assert_eq!(table(|bytes| bytes[0x43] = 0), None);
        assert_eq!(table(|bytes| bytes[0x40] = 0x05), None);
        assert!(ConfigSpace::from_bytes(&[0; 255]).is_none());
    }

    #[test]
    fn the_config_space_is_replayed_with_msix_last() {
        let config = ConfigSpace::from_bytes(&config_space()).unwrap();
        let commands: Vec<_> = config
            .replay(PLACE)
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "o/w 0xcf8 0x80002910",
            "o/w 0xcfc 0xfebd4000",
            "o/w 0xcf8 0x80002914",
            "o/w 0xcfc 0xfebd5000",
            "o/w 0xcf8 0x80002918",
            "o/w 0xcfc 0xfe00000c",
            "o/w 0xcf8 0x8000291c",
            "o/w 0xcfc 0x0",
            "o/w 0xcf8 0x8000293c",
            "o/b 0xcfc 0xb",
            "o/w 0xcf8 0x80002904",
            "o/h 0xcfc 0x406",
            "o/w 0xcf8 0x80002940",
            "o/h 0xcfe 0x8002",
        ];
        assert_eq!(commands, expected);
    }

    /// Reads outputs of QEMU 11.1.3.
    #[test]
    fn what_the_monitor_says_is_read() {
        assert_eq!(
            port_value("portl[0x0cf8] = 0x8001f800\r\n"),
            Some(0x8001_f800)
        );
        assert_eq!(port_value("unknown command: 'i/w'\r\n"), None);
        let line = |address: &str, last: u32| {
            format!("{address}: 0xfee01004 0x00000000 0x00004021 {last:#010x}\r\n")
        };
        let said = [
            line("febd4000", 0),
            line("febd4010", 1),
            line("febd4020", 2),
        ]
        .concat();
        let words = table(&said).unwrap();
        assert_eq!(words[..3], [0xfee0_1004, 0, 0x4021]);
        assert_eq!((words[7], words[11]), (1, 2));
        assert_eq!(table(&line("febd4000", 0)), None);
        let unread = "fffffff0: 0x00e05bea 0x2f3630f0\r\n100000000: Cannot access memory\r\n";
        assert_eq!(table(unread), None);
        assert_eq!(read_table(0xfebd_4000), "xp /12wx 0xfebd4000");
    }
}
