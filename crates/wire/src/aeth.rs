//! Acknowledge extended transport header (IBTA 5.2, 9.7.5.1).
//!
//! ```text
//!   0          1                  syndrome: 000 c  acknowledged, c the credit code
//!   | syndrome | MSN:24 |                   001 t  receiver not ready, t the timer code
//!                                           011 n  refused, n the reason
//! ```

use core::time::Duration;

use crate::bits::Bits;
use crate::field::{be24, put24};
use crate::format::{Format, Malformed, fixed_format, view};

view! {
    /// View of an AETH.
    AethView[4] {
        /// The responder's answer.
        syndrome(b) -> Syndrome { Syndrome::from_byte(b[0]) }
        /// Number of messages that the responder has completed.
        msn(b) -> Msn { Msn::new(be24(b, 1)) }
    }
}

/// Value of an AETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    /// The responder's answer.
    pub syndrome: Syndrome,
    /// Number of messages that the responder has completed.
    pub msn: Msn,
}

/// Message sequence number: a count of messages modulo 2^24 (IBTA 9.7.7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Msn(u32);

impl Msn {
    /// Takes the low 24 bits.
    pub const fn new(value: u32) -> Self {
        Self(value & 0xff_ffff)
    }

    /// The 24-bit value.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the number after one more message.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }
}

/// The syndrome byte (IBTA 9.7.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Syndrome {
    /// Everything up to the PSN arrived.
    Ack(Credits),
    /// No receive is posted; the requester has to try again later.
    ReceiverNotReady(RnrTimer),
    /// The request is refused. The code may have no meaning; [`NakCode::from_bits`] tells.
    Nak(Bits<5>),
    /// The byte is reserved by the table.
    Reserved(u8),
}

impl Syndrome {
    /// Decodes the byte.
    pub const fn from_byte(byte: u8) -> Self {
        match byte >> 5 {
            0 => Self::Ack(Credits(Bits::low(byte))),
            1 => Self::ReceiverNotReady(RnrTimer(Bits::low(byte))),
            3 => Self::Nak(Bits::low(byte)),
            _ => Self::Reserved(byte),
        }
    }

    /// Encodes the byte.
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Ack(credits) => credits.0.get(),
            Self::ReceiverNotReady(timer) => 1 << 5 | timer.0.get(),
            Self::Nak(code) => 3 << 5 | code.get(),
            Self::Reserved(byte) => byte,
        }
    }

    /// Makes a refusal for a reason.
    pub const fn nak(code: NakCode) -> Self {
        Self::Nak(Bits::low(code as u8))
    }
}

/// Why a responder refuses (IBTA 9.7.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum NakCode {
    /// A PSN was skipped.
    Sequence = 0,
    /// The request is malformed, unsupported or one too many.
    InvalidRequest = 1,
    /// The key, the bounds or the right is wrong.
    RemoteAccess = 2,
    /// The responder itself failed.
    RemoteOperational = 3,
}

impl NakCode {
    /// Decodes a code. `None` for the code of reliable datagrams and for reserved ones.
    pub const fn from_bits(code: Bits<5>) -> Option<Self> {
        Some(match code.get() {
            0 => Self::Sequence,
            1 => Self::InvalidRequest,
            2 => Self::RemoteAccess,
            3 => Self::RemoteOperational,
            _ => return None,
        })
    }
}

/// Number of receives that the responder has posted beyond the MSN, as a code (IBTA 9.7.7.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Credits(pub Bits<5>);

impl Credits {
    /// The responder does not count receives: the requester may send without limit.
    pub const UNLIMITED: Self = Self(Bits::MAX);

    /// Returns how many messages may be sent; `None` if there is no limit.
    pub const fn messages(self) -> Option<u32> {
        let code = self.0.get() as u32;
        match code {
            31 => None,
            0 | 1 => Some(code),
            // Every second code doubles: 2, 3, 4, 6, 8, 12, 16, ...
            _ => Some((2 + code % 2) << (code / 2 - 1)),
        }
    }

    /// Returns the largest code that promises no more than `messages`.
    pub fn at_most(messages: u32) -> Self {
        let fits = |&code: &u8| Self(Bits::low(code)).messages() <= Some(messages);
        let code = (0..31).rev().find(fits).unwrap_or(0);
        Self(Bits::low(code))
    }
}

/// Wait after a receiver-not-ready, as a code (IBTA 9.7.5.2.8, table 45).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RnrTimer(pub Bits<5>);

impl RnrTimer {
    /// Returns the wait, from 10 us to 655.36 ms; code 0 is the longest.
    pub const fn delay(self) -> Duration {
        let tens_of_us = match self.0.get() as u64 {
            0 => 1 << 16,
            1 => 1,
            code => (2 + code % 2) << (code / 2 - 1),
        };
        Duration::from_micros(10 * tens_of_us)
    }
}

impl Format for Aeth {
    fixed_format!(AethView, "AETH");

    fn from_view(view: AethView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            syndrome: view.syndrome(),
            msn: view.msn(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        buffer[0] = self.syndrome.to_byte();
        put24(buffer, 1, self.msn.get());
    }
}

#[cfg(test)]
mod tests;
