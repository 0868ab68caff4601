//! The answer "no".

use rustix::io::Errno;

/// Why a command was not carried out: the errno for the reply and a sentence for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// What the client reads in the reply's error field.
    pub errno: Errno,
    /// What a person reads in the log.
    pub reason: &'static str,
}

impl Refusal {
    /// A request that is wrong in itself.
    pub(crate) const fn invalid(reason: &'static str) -> Self {
        Refusal {
            errno: Errno::INVAL,
            reason,
        }
    }

    /// `ENOTTY` is what the kernel's VFIO answers for a feature that it lacks, and what QEMU takes as a plain "no".
    pub(crate) const fn no_feature() -> Self {
        Refusal {
            errno: Errno::NOTTY,
            reason: "the device has no such feature",
        }
    }

    /// A request that is right but asks for what we do not offer.
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
