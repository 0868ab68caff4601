//! The extension headers of one packet, all of them, in wire order.

use crate::aeth::Aeth;
use crate::atomic_ack_eth::AtomicAckEth;
use crate::atomic_eth::AtomicEth;
use crate::cnp::Cnp;
use crate::deth::Deth;
use crate::format::{Format, Malformed};
use crate::ieth::Ieth;
use crate::immdt::ImmDt;
use crate::opcode::Carries;
use crate::reth::Reth;

/// The headers between BTH and payload. The variants are those of [`Carries`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extension {
    /// No headers.
    Nothing,
    /// Immediate data.
    Immediate(ImmDt),
    /// Key to invalidate.
    Invalidate(Ieth),
    /// Memory of a WRITE or READ.
    Remote(Reth),
    /// Memory of a WRITE, and immediate data.
    RemoteImmediate(Reth, ImmDt),
    /// Operands of an atomic.
    Atomic(AtomicEth),
    /// Acknowledgement.
    Ack(Aeth),
    /// Acknowledgement, and the word's value before an atomic.
    AtomicAck(Aeth, AtomicAckEth),
    /// Key and sender of a datagram.
    Datagram(Deth),
    /// Key and sender of a datagram, and immediate data.
    DatagramImmediate(Deth, ImmDt),
    /// Reserved bytes of a CNP.
    Cnp(Cnp),
}

impl Carries {
    /// Returns the bytes of the headers.
    pub const fn len(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Immediate | Self::Invalidate | Self::Ack => 4,
            Self::Datagram => 8,
            Self::AtomicAck | Self::DatagramImmediate => 12,
            Self::Remote | Self::Cnp => 16,
            Self::RemoteImmediate => 20,
            Self::Atomic => 28,
        }
    }

    /// Whether nothing follows the BTH.
    pub const fn is_empty(self) -> bool {
        matches!(self, Self::Nothing)
    }
}

impl Extension {
    /// Bytes of the longest headers, those of atomics.
    pub const MAX_LEN: usize = Carries::Atomic.len();

    /// Returns which headers these are.
    pub const fn carries(&self) -> Carries {
        match self {
            Self::Nothing => Carries::Nothing,
            Self::Immediate(_) => Carries::Immediate,
            Self::Invalidate(_) => Carries::Invalidate,
            Self::Remote(_) => Carries::Remote,
            Self::RemoteImmediate(..) => Carries::RemoteImmediate,
            Self::Atomic(_) => Carries::Atomic,
            Self::Ack(_) => Carries::Ack,
            Self::AtomicAck(..) => Carries::AtomicAck,
            Self::Datagram(_) => Carries::Datagram,
            Self::DatagramImmediate(..) => Carries::DatagramImmediate,
            Self::Cnp(_) => Carries::Cnp,
        }
    }

    /// Parses the headers that an opcode carries from the bytes after its BTH.
    ///
    /// # Errors
    /// [`Malformed::Short`] if they are not whole.
    pub fn parse(carries: Carries, bytes: &[u8]) -> Result<Self, Malformed> {
        Ok(match carries {
            Carries::Nothing => Self::Nothing,
            Carries::Immediate => Self::Immediate(ImmDt::parse(bytes)?),
            Carries::Invalidate => Self::Invalidate(Ieth::parse(bytes)?),
            Carries::Remote => Self::Remote(Reth::parse(bytes)?),
            Carries::RemoteImmediate => pair(bytes, Self::RemoteImmediate)?,
            Carries::Atomic => Self::Atomic(AtomicEth::parse(bytes)?),
            Carries::Ack => Self::Ack(Aeth::parse(bytes)?),
            Carries::AtomicAck => pair(bytes, Self::AtomicAck)?,
            Carries::Datagram => Self::Datagram(Deth::parse(bytes)?),
            Carries::DatagramImmediate => pair(bytes, Self::DatagramImmediate)?,
            Carries::Cnp => Self::Cnp(Cnp::parse(bytes)?),
        })
    }

    /// Writes the headers to the front of `buffer`.
    ///
    /// # Panics
    /// If the buffer is shorter than [`Carries::len`]: the caller sized it.
    pub fn emit(&self, buffer: &mut [u8]) {
        match self {
            Self::Nothing => {}
            Self::Immediate(imm) => imm.emit(buffer),
            Self::Invalidate(ieth) => ieth.emit(buffer),
            Self::Remote(reth) => reth.emit(buffer),
            Self::RemoteImmediate(reth, imm) => emit_pair(reth, imm, buffer),
            Self::Atomic(atomic) => atomic.emit(buffer),
            Self::Ack(aeth) => aeth.emit(buffer),
            Self::AtomicAck(aeth, word) => emit_pair(aeth, word, buffer),
            Self::Datagram(deth) => deth.emit(buffer),
            Self::DatagramImmediate(deth, imm) => emit_pair(deth, imm, buffer),
            Self::Cnp(cnp) => cnp.emit(buffer),
        }
    }
}

fn pair<A: Format, B: Format>(
    bytes: &[u8],
    together: fn(A, B) -> Extension,
) -> Result<Extension, Malformed> {
    let first = A::parse(bytes)?;
    Ok(together(first, B::parse(&bytes[first.buffer_len()..])?))
}

fn emit_pair<A: Format, B: Format>(first: &A, second: &B, buffer: &mut [u8]) {
    first.emit(buffer);
    second.emit(&mut buffer[first.buffer_len()..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode::OPCODES;

    #[test]
    fn headers_survive_and_shorter_ones_are_refused() {
        let bytes: [u8; 32] = core::array::from_fn(|i| i as u8 + 1);
        for info in OPCODES {
            let len = info.carries.len();
            let extension = Extension::parse(info.carries, &bytes[..len]).unwrap();
            assert_eq!(extension.carries(), info.carries);
            let mut emitted = [0xee; 32];
            extension.emit(&mut emitted);
            assert_eq!(emitted[len..], [0xee; 32][len..], "{}", info.name);
            assert_eq!(Extension::parse(info.carries, &emitted), Ok(extension));
            if let Some(short) = len.checked_sub(1) {
                let refused = Extension::parse(info.carries, &bytes[..short]);
                assert_eq!(refused, Err(Malformed::Short), "{}", info.name);
            }
        }
    }
}
