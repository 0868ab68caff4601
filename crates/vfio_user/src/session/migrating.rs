//! Migration of the device through its client, in either direction: states, and data in pieces.
//!
//! ```text
//!   leaving   STOP ─save─► [data........] ─MIG_DATA_READ─► pieces, then 0 bytes
//!                                  read ^
//!   arriving  RESUMING ◄─MIG_DATA_WRITE─ pieces;  [data...] ─load─► STOP
//! ```
//! One buffer holds the data that leaves or arrives, at most [`DATA_MAX`] bytes, and is dropped with its state.

use rustix::io::Errno;

use super::Peer;
use crate::backend::Backend;
use crate::message::{
    DATA_MAX, DMA_PAGE_SIZE, Feature, FeatureRequest, Header, Kind, Refusal, Report,
    migration_data, migration_flags, migration_state, written_pages,
};
use crate::migration::{Migration, State};

/// Place of the page size in a request to start logging.
const LOGGING_PAGE_SIZE: std::ops::Range<usize> = 8..16;

/// The migration state of a session; see the module.
#[derive(Debug, Default)]
pub(super) struct Migrating {
    state: State,
    /// The data that is read, or was written.
    data: Vec<u8>,
    /// Number of bytes that were read.
    read: usize,
    /// Whether the stopped device was loaded, and has not worked yet.
    is_loaded: bool,
}

impl Migrating {
    /// The state for another process, which has the device and not the data: loaded data and data under way are lost.
    pub(super) fn kept_state(&self) -> State {
        match self.state {
            State::Running => State::Running,
            State::Stop | State::StopCopy if !self.is_loaded => State::Stop,
            _ => State::Error,
        }
    }

    /// The state that another process left.
    pub(super) fn resume(state: State) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }

    /// Goes to another state, through STOP. If a step fails, the device stays in the state that it had reached.
    fn set(&mut self, to: State, device: &mut dyn Migration) -> Result<(), Refusal> {
        if self.state == State::Error || to == State::Error {
            return Err(Refusal::invalid(
                "a device that failed is reset, and none fails because it is told to",
            ));
        }
        if self.state == to {
            return Ok(());
        }
        self.leave(device)?;
        self.enter(to, device)
    }

    fn leave(&mut self, device: &mut dyn Migration) -> Result<(), Refusal> {
        match self.state {
            State::Stop | State::Error => {}
            State::Running => device.stop()?,
            State::StopCopy => self.end_data(device)?,
            State::Resuming => {
                let data = std::mem::take(&mut self.data);
                // The state until it is known whether loading succeeds.
                self.state = State::Error;
                device.hold(0)?;
                device.load(&data)?;
                self.is_loaded = true;
            }
        }
        self.state = State::Stop;
        Ok(())
    }

    fn enter(&mut self, to: State, device: &mut dyn Migration) -> Result<(), Refusal> {
        match to {
            State::Stop | State::Error => {}
            State::Running => {
                device.go_on()?;
                self.is_loaded = false;
            }
            State::StopCopy => {
                let data = device.save()?;
                assert!(data.len() <= DATA_MAX, "a device keeps to the bound");
                device.hold(data.len())?;
                self.data = data;
            }
            State::Resuming => device.prepare()?,
        }
        self.state = to;
        Ok(())
    }

    fn end_data(&mut self, device: &mut dyn Migration) -> Result<(), Refusal> {
        self.data = Vec::new();
        self.read = 0;
        Ok(device.hold(0)?)
    }

    fn take(&mut self, size: u32) -> &[u8] {
        let rest = &self.data[self.read..];
        let piece = &rest[..rest.len().min(size as usize)];
        self.read += piece.len();
        piece
    }

    fn put(&mut self, piece: &[u8], device: &mut dyn Migration) -> Result<(), Refusal> {
        if self.state != State::Resuming {
            return Err(Refusal::invalid("data is written while it resumes"));
        }
        if piece.len() > DATA_MAX - self.data.len() {
            return Err(Refusal {
                errno: Errno::FBIG,
                reason: "no device has that much state",
            });
        }
        device.hold(self.data.len() + piece.len())?;
        self.data.extend_from_slice(piece);
        Ok(())
    }
}

fn migration(backend: &mut dyn Backend) -> Result<&mut dyn Migration, Refusal> {
    backend.migration().ok_or(Refusal::no_feature())
}

impl Peer {
    pub(super) fn feature(
        &mut self,
        to: &Header,
        feature: Feature<'_>,
        backend: &mut dyn Backend,
    ) -> Result<(), Refusal> {
        let device = migration(backend)?;
        let asked = feature.payload;
        match feature.request {
            FeatureRequest::Probe => self.output.reply_with(to, asked),
            FeatureRequest::GetMigration => self.output.reply_with(to, &migration_flags(asked)),
            FeatureRequest::GetState => {
                let state = migration_state(asked, self.migrating.state);
                self.output.reply_with(to, &state);
            }
            FeatureRequest::SetState(code) => {
                let state = State::from_code(code).ok_or(Refusal::invalid(
                    "there is no such state, or it is not offered",
                ))?;
                self.migrating.set(state, device)?;
                self.output.reply_with(to, asked);
            }
            FeatureRequest::StartLogging => {
                device.start_logging()?;
                let mut answer = asked.to_vec();
                answer[LOGGING_PAGE_SIZE].copy_from_slice(&DMA_PAGE_SIZE.to_le_bytes());
                self.output.reply_with(to, &answer);
            }
            FeatureRequest::StopLogging => {
                device.stop_logging();
                self.output.reply_with(to, asked);
            }
            FeatureRequest::Report(report) => self.report(to, asked, &report, device)?,
        }
        Ok(())
    }

    /// Reports written pages. If no answer is wanted nothing is queried, since reported pages are forgotten.
    fn report(
        &mut self,
        to: &Header,
        asked: &[u8],
        report: &Report,
        device: &mut dyn Migration,
    ) -> Result<(), Refusal> {
        if wants_answer(to) {
            let written = device.take_written(report.range())?;
            let answer = written_pages(asked, report, &written);
            self.output.reply_with(to, &answer);
        }
        Ok(())
    }

    /// Sends the next piece of the data; the client has all of it when it gets less than it requested. If no answer is
    /// wanted nothing is taken.
    pub(super) fn read_data(
        &mut self,
        to: &Header,
        size: u32,
        backend: &mut dyn Backend,
    ) -> Result<(), Refusal> {
        let device = migration(backend)?;
        if self.migrating.state != State::StopCopy {
            return Err(Refusal::invalid("there is no data to read in this state"));
        }
        if self.max_transfer.is_none_or(|most| size > most) {
            return Err(Refusal::invalid(
                "the transfer is larger than max_data_xfer_size",
            ));
        }
        if !wants_answer(to) {
            return Ok(());
        }
        let piece = self.migrating.take(size);
        let head = migration_data(piece.len() as u32);
        self.output.reply_with(to, &[&head, piece].concat());
        if self.migrating.read == self.migrating.data.len() {
            device.saved();
        }
        Ok(())
    }

    pub(super) fn write_data(
        &mut self,
        to: &Header,
        data: &[u8],
        backend: &mut dyn Backend,
    ) -> Result<(), Refusal> {
        self.migrating.put(data, migration(backend)?)?;
        self.output.reply_with(to, &[]);
        Ok(())
    }
}

fn wants_answer(to: &Header) -> bool {
    to.kind == (Kind::Command { no_reply: false })
}
