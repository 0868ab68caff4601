//! PCI configuration space: the device's IDs, its BARs and its MSI-X capability.
//!
//! ```text
//!   BAR 0     16 KiB  MSI-X: table at 0, pending bits at 0x2000 (the VMM emulates both)
//!   BAR 1      4 KiB  registers
//!   BAR 2+3    64 bit, one page per context: doorbells
//! ```
//!
//! A header of type 0 and one capability. A mask beside the bytes tells which bits the guest may change, so a write is
//! the same rule for every register. Bus mastering is the only bit with a meaning here.

/// Bytes of the configuration space.
pub const CONFIG_BYTES: usize = 256;
/// Bytes of BAR 0.
pub const MSIX_BAR_BYTES: u64 = 16 << 10;
/// Bytes of BAR 1.
pub const REGISTER_BAR_BYTES: u64 = 4 << 10;

const VENDOR_VMWARE: u16 = 0x15ad;
const DEVICE_PVRDMA: u16 = 0x0820;
/// Class code: network controller, other.
const CLASS_NETWORK_OTHER: [u8; 3] = [0x00, 0x80, 0x02];
const REVISION: u8 = 1;

const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const REVISION_ID: usize = 0x08;
const CLASS: usize = 0x09;
const BAR0: usize = 0x10;
const BAR1: usize = 0x14;
const BAR2: usize = 0x18;
const SUBSYSTEM: usize = 0x2c;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;
const MSIX: usize = 0x40;

/// Bits of the command register that the guest may change: memory decoding, bus mastering, parity and SERR reporting,
/// interrupt disabling.
const COMMAND_WRITABLE: u16 = 0x0546;
const BUS_MASTER: u8 = 1 << 2;
const STATUS_CAPABILITY_LIST: u16 = 1 << 4;
const BAR_64_BIT: u32 = 0x4;
const MSIX_ID: u8 = 0x11;
/// Bits of the MSI-X control word that the guest may change: enable and function mask.
const MSIX_CONTROL_WRITABLE: u16 = 0xc000;
const MSIX_PENDING_OFFSET: u32 = 0x2000;

/// The configuration space.
pub struct ConfigSpace {
    bytes: [u8; CONFIG_BYTES],
    writable: [u8; CONFIG_BYTES],
}

impl ConfigSpace {
    /// The space of a device with `vectors` interrupts and `doorbell_bytes` of doorbells, a power of two.
    pub fn new(vectors: u16, doorbell_bytes: u64) -> Self {
        let mut space = Self {
            bytes: [0; CONFIG_BYTES],
            writable: [0; CONFIG_BYTES],
        };
        space.identify();
        space.place_bars(doorbell_bytes);
        space.place_msix(vectors);
        space
    }

    /// Sets IDs and class. The interrupt pin stays 0: without MSI-X the driver has no events and is of no use.
    fn identify(&mut self) {
        self.set(0, VENDOR_VMWARE.to_le_bytes(), [0; 2]);
        self.set(2, DEVICE_PVRDMA.to_le_bytes(), [0; 2]);
        self.set(COMMAND, [0; 2], COMMAND_WRITABLE.to_le_bytes());
        self.set(STATUS, STATUS_CAPABILITY_LIST.to_le_bytes(), [0; 2]);
        self.set(REVISION_ID, [REVISION], [0]);
        self.set(CLASS, CLASS_NETWORK_OTHER, [0; 3]);
        self.set(SUBSYSTEM, VENDOR_VMWARE.to_le_bytes(), [0; 2]);
        self.set(SUBSYSTEM + 2, DEVICE_PVRDMA.to_le_bytes(), [0; 2]);
        self.set(CAPABILITIES, [MSIX as u8], [0]);
        self.set(INTERRUPT_LINE, [0], [0xff]);
    }

    fn place_bars(&mut self, doorbell_bytes: u64) {
        let address_bits = |bytes: u64| !(bytes - 1);
        self.set(
            BAR0,
            [0; 4],
            (address_bits(MSIX_BAR_BYTES) as u32).to_le_bytes(),
        );
        self.set(
            BAR1,
            [0; 4],
            (address_bits(REGISTER_BAR_BYTES) as u32).to_le_bytes(),
        );
        let doorbells = u64::from(BAR_64_BIT).to_le_bytes();
        self.set(BAR2, doorbells, address_bits(doorbell_bytes).to_le_bytes());
    }

    fn place_msix(&mut self, vectors: u16) {
        self.set(MSIX, [MSIX_ID, 0], [0; 2]);
        let control = (vectors - 1).to_le_bytes();
        self.set(MSIX + 2, control, MSIX_CONTROL_WRITABLE.to_le_bytes());
        self.set(MSIX + 4, [0; 4], [0; 4]);
        self.set(MSIX + 8, MSIX_PENDING_OFFSET.to_le_bytes(), [0; 4]);
    }

    fn set<const N: usize>(&mut self, at: usize, value: [u8; N], writable: [u8; N]) {
        self.bytes[at..at + N].copy_from_slice(&value);
        self.writable[at..at + N].copy_from_slice(&writable);
    }

    /// All bytes of the space.
    pub fn bytes(&self) -> &[u8; CONFIG_BYTES] {
        &self.bytes
    }

    /// Reads from `offset`; bytes outside the space read as ones.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let known = self.bytes.iter().copied().skip(start);
        let values = known.chain(std::iter::repeat(0xff));
        out.iter_mut()
            .zip(values)
            .for_each(|(byte, value)| *byte = value);
    }

    /// Writes the bits at `offset` that the guest may change; bytes outside the space are ignored.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let Ok(start) = usize::try_from(offset) else {
            return;
        };
        let registers = self.bytes.iter_mut().zip(&self.writable).skip(start);
        for ((byte, mask), new) in registers.zip(data) {
            *byte = *byte & !mask | new & mask;
        }
    }

    /// Whether the device may reach memory and raise interrupts.
    pub fn bus_master(&self) -> bool {
        self.bytes[COMMAND] & BUS_MASTER != 0
    }
}

#[cfg(test)]
mod tests;
