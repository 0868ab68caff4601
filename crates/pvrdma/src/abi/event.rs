//! Entries of the two device rings (`struct pvrdma_eqe`, `struct pvrdma_cqne`).

use super::U32;

shared! {
    /// An asynchronous event.
    pub struct EventEntry {
        /// An [`EventCode`].
        pub code: U32,
        /// Handle of the object, or port number.
        pub info: U32,
    }

    /// A completion notification.
    pub struct NotifyEntry {
        /// Handle of the CQ.
        pub cq: U32,
    }
}

/// Kinds of asynchronous events (`enum pvrdma_eqe_type`, equal to `enum ib_event_type`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are the field's own")]
pub enum EventCode {
    CqErr = 0,
    QpFatal = 1,
    QpReqErr = 2,
    QpAccessErr = 3,
    CommEst = 4,
    SqDrained = 5,
    DeviceFatal = 8,
    PortActive = 9,
    PortErr = 10,
    SrqErr = 14,
    SrqLimitReached = 15,
    QpLastWqeReached = 16,
}
