//! Refusals of commands.

use rustix::io::Errno;

/// The reason why a command was not carried out: an errno for the reply and a sentence for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// Errno in the reply.
    pub errno: Errno,
    /// Sentence in the log.
    pub reason: &'static str,
}

impl Refusal {
    /// Refuses a request that is wrong in itself.
    pub(crate) const fn invalid(reason: &'static str) -> Self {
        Refusal {
            errno: Errno::INVAL,
            reason,
        }
    }

    /// Refuses a feature. The kernel's VFIO answers `ENOTTY` for a feature that it lacks, and QEMU takes that as a
    /// plain "no".
    pub(crate) const fn no_feature() -> Self {
        Refusal {
            errno: Errno::NOTTY,
            reason: "the device has no such feature",
        }
    }

    /// Refuses a correct request for something that is not supported.
    pub(crate) const fn unsupported(reason: &'static str) -> Self {
        Refusal {
            errno: Errno::OPNOTSUPP,
            reason,
        }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Refusal {
            errno,
            reason: "the device refused it",
        }
    }
}
