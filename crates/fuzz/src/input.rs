//! An input as a script: a sequence of numbers and bytes, and zeros when it is used up.

/// The rest of an input.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.bytes(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    pub(crate) fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub(crate) fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub(crate) fn is_odd(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// A small number, an extreme one, or any number.
    pub(crate) fn number(&mut self) -> u64 {
        match self.byte() {
            seed @ 0..=127 => (seed % 32).into(),
            seed @ 128..=159 => 1 << (seed - 128),
            seed @ 160..=175 => u64::MAX - u64::from(seed - 160),
            seed @ 176..=191 => u64::from(u32::MAX) - u64::from(seed - 176),
            192..=223 => self.half().into(),
            _ => self.long(),
        }
    }

    /// The next bytes: `count` of them, or as many as are left.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (now, later) = self.0.split_at(count.min(self.0.len()));
        self.0 = later;
        now
    }

    /// Bytes behind their number.
    pub(crate) fn block(&mut self) -> &'a [u8] {
        let count = self.half() % 2048;
        self.bytes(count.into())
    }
}
