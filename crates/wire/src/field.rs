//! Big-endian fields at fixed offsets of a header.
//!
//! Offsets are constants of the formats and lie inside the length that a view's constructor checked, so an access out
//! of bounds is an error in a format's table; the fuzz bodies would find it at once.

pub(crate) fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(get(bytes, at))
}

pub(crate) fn be24(bytes: &[u8], at: usize) -> u32 {
    let [a, b, c] = get(bytes, at);
    u32::from_be_bytes([0, a, b, c])
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(get(bytes, at))
}

pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(get(bytes, at))
}

/// Whether bit `bit` (0 is the least significant) of the byte is set.
pub(crate) fn flag(bytes: &[u8], at: usize, bit: u32) -> bool {
    bytes[at] >> bit & 1 == 1
}

pub(crate) fn put<const N: usize>(buffer: &mut [u8], at: usize, field: [u8; N]) {
    buffer[at..at + N].copy_from_slice(&field);
}

/// Writes the low 24 bits.
pub(crate) fn put24(buffer: &mut [u8], at: usize, value: u32) {
    let [_, a, b, c] = value.to_be_bytes();
    put(buffer, at, [a, b, c]);
}
