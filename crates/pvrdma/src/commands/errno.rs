//! Reasons for refusing a command, with Linux's numbers, so that guest logs are readable.

use vrdma_verbs::Error;

/// A value of the error register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Errno {
    /// No such object.
    NoEntry = 2,
    /// A table or the page quota is full.
    NoMemory = 12,
    /// A page directory, a slot or the shared region cannot be reached.
    Fault = 14,
    /// The object is in use.
    Busy = 16,
    /// A value is not allowed.
    Invalid = 22,
    /// Unknown, or deliberately not supported.
    NotSupported = 95,
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidHandle => Self::NoEntry,
            Error::InUse => Self::Busy,
            Error::Exhausted => Self::NoMemory,
            Error::InvalidAttribute
            | Error::InvalidTransition
            | Error::InvalidState
            | Error::Leaving
            | Error::WrongOwner => Self::Invalid,
        }
    }
}

/// Checks a condition; the error is `Invalid`.
pub(super) fn require(condition: bool) -> Result<(), Errno> {
    condition.then_some(()).ok_or(Errno::Invalid)
}
