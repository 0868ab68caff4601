//! The ticket with which a context is expected.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A random number, as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ticket(u128);

impl Ticket {
    /// Makes a ticket of a number that nobody can guess.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }
}

/// Why a text is not a [`Ticket`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotATicket;

impl fmt::Display for NotATicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ticket has 32 hexadecimal digits; use the one that the destination's daemon gave out")
    }
}

impl std::error::Error for NotATicket {}

impl FromStr for Ticket {
    type Err = NotATicket;

    fn from_str(text: &str) -> Result<Self, NotATicket> {
        let is_one = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_one.then(|| u128::from_str_radix(text, 16).ok());
        number.flatten().map(Self).ok_or(NotATicket)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl TryFrom<String> for Ticket {
    type Error = NotATicket;

    fn try_from(text: String) -> Result<Self, NotATicket> {
        text.parse()
    }
}

impl From<Ticket> for String {
    fn from(ticket: Ticket) -> Self {
        ticket.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_32_digits() {
        let ticket = Ticket::new(0x0123);
        let text = ticket.to_string();
        assert_eq!(text, format!("{}0123", "0".repeat(28)));
        assert_eq!(text.parse(), Ok(ticket));
        for bad in ["", "123", &"g".repeat(32), &format!("+{}", "0".repeat(31))] {
            assert_eq!(bad.parse::<Ticket>(), Err(NotATicket), "{bad}");
        }
    }
}
