//! Finds out whether the guest's memory is really shared with the daemon.
//!
//! QEMU sends a file descriptor even for memory that it maps privately (`share=off`): the daemon then silently reads
//! zeros. So when the driver names its shared region, the first bytes of it are also read over the socket, and compared
//! with the mapping.

/// Bytes compared: the driver's version, its OS and the address of its command slot. The driver
/// writes them once, before it names the region.
pub(super) const SAMPLE_BYTES: u32 = 24;

/// What to tell the user.
const NOT_SHARED: &str = "the guest's memory is not shared with vrdmad: start QEMU with \
     -object memory-backend-memfd,id=ram,size=...,share=on -machine memory-backend=ram";

/// Follows the two halves of the shared region's address.
#[derive(Default)]
pub(super) struct Sharing {
    low: u32,
    question: Option<u64>,
    asked: u64,
    differs: bool,
}

impl Sharing {
    /// Takes the lower half, which the driver wrote.
    pub(super) fn low(&mut self, value: u32) {
        self.low = value;
    }

    /// Takes the upper half, which the driver wrote: the region is named.
    pub(super) fn high(&mut self, value: u32) {
        self.question = Some(u64::from(value) << 32 | u64::from(self.low));
    }

    /// Returns the address to read over the socket, once.
    pub(super) fn take_question(&mut self) -> Option<u64> {
        self.asked = self.question.take()?;
        Some(self.asked)
    }

    /// Returns the address asked for last.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// Compares the socket's answer with the mapping's bytes.
    pub(super) fn compare(&mut self, told: &[u8], mapped: &[u8]) {
        self.differs = told != mapped;
    }

    /// Returns the complaint, if there is one.
    pub(super) fn fault(&self) -> Option<&'static str> {
        self.differs.then_some(NOT_SHARED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_once_for_each_named_region() {
        let mut sharing = Sharing::default();
        sharing.low(0x1000);
        assert_eq!(sharing.take_question(), None);
        sharing.high(2);
        assert_eq!(sharing.take_question(), Some(0x2_0000_1000));
        assert_eq!(sharing.take_question(), None);
    }

    #[test]
    fn different_bytes_are_a_fault_until_they_agree() {
        let mut sharing = Sharing::default();
        sharing.compare(&[20, 0], &[0, 0]);
        assert!(
            sharing
                .fault()
                .is_some_and(|text| text.contains("share=on"))
        );
        sharing.compare(&[20, 0], &[20, 0]);
        assert_eq!(sharing.fault(), None);
    }
}
