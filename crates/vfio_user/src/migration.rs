//! The states of a migrating device, whose state its client takes away or brings.
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
//! `<linux/vfio.h>`). All arcs lead to STOP or from it, so the shortest way between any two other states passes STOP.
//! PRE_COPY is not offered: nothing that a working device could send would still be true after it has stopped. The log
//! (`DMA_LOGGING`) tells what it writes into memory meanwhile.
//!
//! The backend defines the contents of the data. This crate does not know where the data goes.

use std::ops::Range;

use rustix::io::Errno;

/// The migration state of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum State {
    /// The device failed to load, and must be reset.
    Error = 0,
    /// The device does nothing.
    Stop = 1,
    /// The device works.
    #[default]
    Running = 2,
    /// The device does nothing, and its data can be read.
    StopCopy = 3,
    /// The device does nothing, and data is written for it.
    Resuming = 4,
}

impl State {
    /// All states that are offered.
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

/// Operations of a device that can migrate. Each is complete when the call returns; an error changes nothing, unless it
/// says otherwise.
pub trait Migration {
    /// Stops the device: no more interrupts, no access to memory.
    ///
    /// # Errors
    /// `EBUSY` when another party keeps the device stopped.
    fn stop(&mut self) -> Result<(), Errno>;

    /// Starts the device again: where it stopped, or at the state that was loaded.
    ///
    /// # Errors
    /// `EBUSY` when another party keeps the device stopped.
    fn go_on(&mut self) -> Result<(), Errno>;

    /// Reserves `bytes` of data for the device from now on, either saved by [`save`](Self::save) or received; 0 ends
    /// that.
    ///
    /// # Errors
    /// `ENOSPC` when the data of all devices fills the memory for it.
    fn hold(&mut self, bytes: usize) -> Result<(), Errno>;

    /// Returns the state of the stopped device: at most [`DATA_MAX`](crate::message::DATA_MAX) bytes.
    ///
    /// # Errors
    /// `EFBIG` when it is longer, `EBUSY` when it was requested too often, and the errors of [`hold`](Self::hold).
    fn save(&mut self) -> Result<Vec<u8>, Errno>;

    /// Notes that the client has read all data: from now on another device may go on with it.
    fn saved(&mut self);

    /// Checks whether the stopped device may take another device's state.
    ///
    /// # Errors
    /// `EBUSY` when the device is in use, or was asked too often.
    fn prepare(&mut self) -> Result<(), Errno>;

    /// Loads the state of another device; this one stays stopped.
    ///
    /// # Errors
    /// `EINVAL` if `data` is not a state, or not one of this device: the device must be reset.
    fn load(&mut self, data: &[u8]) -> Result<(), Errno>;

    /// Starts to log the pages that the device writes.
    ///
    /// # Errors
    /// `EINVAL` when it already does, `EBUSY` when it logs for another party.
    fn start_logging(&mut self) -> Result<(), Errno>;

    /// Stops logging, if it was started.
    fn stop_logging(&mut self);

    /// Returns the pages written in a range of bus addresses since the last call: whole pages of
    /// [`DMA_PAGE_SIZE`](crate::message::DMA_PAGE_SIZE), all within the range.
    ///
    /// # Errors
    /// `EINVAL` when nothing is logged, perhaps because memory was taken away.
    fn take_written(&mut self, range: Range<u64>) -> Result<Vec<Range<u64>>, Errno>;
}
