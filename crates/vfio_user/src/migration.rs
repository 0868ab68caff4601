//! How the state of a device leaves by its client, and comes by one.
//!
//! ```text
//!                  stop             save
//!     RUNNING ◄─────────► STOP ◄─────────► STOP_COPY     the client reads data
//!                 go on   ▲  │
//!                    load │  │ prepare
//!                         │  ▼
//!                       RESUMING                         the client writes data
//!
//!     a load that fails ──► ERROR ──reset──► RUNNING
//! ```
//! States and arcs are those of VFIO ("Direct State Transitions" of the specification, `enum vfio_device_mig_state` of
//! `<linux/vfio.h>`): all lead to STOP or from it, so the shortest way between any two of the others is by STOP.
//! PRE_COPY is not offered: of a device that works nothing can be sent that would still be true when it has stopped. What it
//! writes into memory meanwhile is told by its log (`DMA_LOGGING`).
//!
//! What the data holds is the backend's business. Nobody here knows where it goes.

use std::ops::Range;

use rustix::io::Errno;

/// Where in its migration a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum State {
    /// It failed to load, and must be reset.
    Error = 0,
    /// It does nothing.
    Stop = 1,
    /// It works.
    #[default]
    Running = 2,
    /// It does nothing, and its data can be read.
    StopCopy = 3,
    /// It does nothing, and data is written for it.
    Resuming = 4,
}

impl State {
    /// Every state that is offered.
    pub const ALL: [State; 5] = [
        State::Error,
        State::Stop,
        State::Running,
        State::StopCopy,
        State::Resuming,
    ];

    /// The state with this number, if it is offered.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

/// What a device that can migrate does. Each call has done all of it when it returns; an error leaves things as they were,
/// unless it says otherwise.
pub trait Migration {
    /// Does nothing any more: no interrupt, no access to memory.
    ///
    /// # Errors
    /// `EBUSY` when somebody else has it stand still.
    fn stop(&mut self) -> Result<(), Errno>;

    /// Works again: where it stopped, or where the state that was loaded left off.
    ///
    /// # Errors
    /// `EBUSY` when somebody else has it stand still.
    fn go_on(&mut self) -> Result<(), Errno>;

    /// So many bytes of data are kept for it from now on, what [`save`](Self::save) gave or what came; 0 ends that.
    ///
    /// # Errors
    /// `ENOSPC` when the data of all devices fills what there is for it.
    fn hold(&mut self, bytes: usize) -> Result<(), Errno>;

    /// The state of the stopped device: at most [`DATA_MAX`](crate::message::DATA_MAX) bytes.
    ///
    /// # Errors
    /// `EFBIG` when it is longer, `EBUSY` when it was asked for too often, and those of [`hold`](Self::hold).
    fn save(&mut self) -> Result<Vec<u8>, Errno>;

    /// The client has read all of it: from now on another device may go on with it.
    fn saved(&mut self);

    /// Whether the stopped device may take another one's state.
    ///
    /// # Errors
    /// `EBUSY` when it is in use, or was asked too often.
    fn prepare(&mut self) -> Result<(), Errno>;

    /// Becomes the device whose state this is, stopped.
    ///
    /// # Errors
    /// `EINVAL` for what is none, or none of this device: it must be reset.
    fn load(&mut self, data: &[u8]) -> Result<(), Errno>;

    /// Notes from now on which pages it writes.
    ///
    /// # Errors
    /// `EINVAL` when it does so already, `EBUSY` when it does so for somebody else.
    fn start_logging(&mut self) -> Result<(), Errno>;

    /// Notes nothing any more, if it did.
    fn stop_logging(&mut self);

    /// What it wrote in a range of bus addresses since it was asked last: whole pages of
    /// [`DMA_PAGE_SIZE`](crate::message::DMA_PAGE_SIZE), all of them within the range.
    ///
    /// # Errors
    /// `EINVAL` when nothing is noted, perhaps not any more: memory was taken away.
    fn take_written(&mut self, range: Range<u64>) -> Result<Vec<Range<u64>>, Errno>;
}
