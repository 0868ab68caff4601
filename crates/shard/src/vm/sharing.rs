//! Finds out whether the guest's memory is really shared with the daemon.
//!
//! QEMU sends a file descriptor even for memory that it maps privately (`share=off`): the daemon then
//! reads zeros, silently. So when the driver names its shared region, the first bytes of it are asked
//! for over the socket too and compared with what the mapping shows.

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
    /// The driver wrote the lower half.
    pub(super) fn low(&mut self, value: u32) {
        self.low = value;
    }

    /// The driver wrote the upper half: the region is named.
    pub(super) fn high(&mut self, value: u32) {
        self.question = Some(u64::from(value) << 32 | u64::from(self.low));
    }

    /// The address to read over the socket, once.
    pub(super) fn take_question(&mut self) -> Option<u64> {
        self.asked = self.question.take()?;
        Some(self.asked)
    }

    /// The address asked for last.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// The socket's answer beside the mapping's bytes.
    pub(super) fn compare(&mut self, told: &[u8], mapped: &[u8]) {
        self.differs = told != mapped;
    }

    /// The complaint, if there is one.
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
