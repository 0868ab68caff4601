//! Reasons why a control call was refused.

/// Reason of a refusal. A refused call changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Error {
    /// No such object.
    #[error("there is no object with that handle")]
    InvalidHandle,
    /// A value outside its range, or one that does not fit another.
    #[error("an attribute has a value that is not allowed")]
    InvalidAttribute,
    /// The attributes named, or the target state, do not fit the QP's state (IBTA 11.2).
    #[error("the queue pair cannot go to that state with those attributes")]
    InvalidTransition,
    /// Work that the QP's state does not accept.
    #[error("the queue pair does not take work in its state")]
    InvalidState,
    /// Other objects still need it.
    #[error("the object is still in use")]
    InUse,
    /// A table or queue is full.
    #[error("the table or queue is full")]
    Exhausted,
    /// The owner is gone and its objects are being freed: it gets no new ones.
    #[error("the owner of the object is leaving")]
    Leaving,
    /// Objects of two owners, or of two protection domains, were combined.
    #[error("the objects belong to different owners")]
    WrongOwner,
}
