//! The command channel, as `pvrdma_cmd.c` uses it.

use vrdma_pvrdma::abi::command::{
    ACK, Command, HEADER_BYTES, REQUEST_BYTES, RESPONSE_BYTES, RequestHeader, ResponseHeader,
};
use vrdma_pvrdma::abi::register::Register;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::guest::Guest;

/// Bytes after a request in the slot: the driver copies its stack.
const STACK: u8 = 0xa5;

/// Cookie that the device must echo.
const COOKIE: u64 = 0x0123_4567_89ab_cdef;

/// Reasons why a command did not work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommandError {
    /// The error register, as read after the request.
    #[error("refused with {0}")]
    Refused(u32),
    /// A command that the driver waits for ended without its interrupt, or one that it does not wait for raised one.
    #[error("{0} response interrupts")]
    Interrupts(u32),
    /// The response belongs to another command.
    #[error("acknowledged as {0:#x}")]
    Acknowledged(u32),
}

/// Whether the driver sleeps until the response of a command.
const fn is_waited(command: Command) -> bool {
    !matches!(
        command,
        Command::DestroyPd
            | Command::DestroyMr
            | Command::DestroyCq
            | Command::DestroyQp
            | Command::DestroyUc
            | Command::CreateBind
            | Command::DestroyBind
            | Command::ModifySrq
            | Command::DestroySrq
    )
}

impl Guest {
    /// Executes a command and returns its answer.
    pub fn ask<A: FromBytes>(
        &mut self,
        command: Command,
        request: &(impl IntoBytes + Immutable),
    ) -> Result<A, CommandError> {
        self.begin(command, request);
        self.answer(command)
    }

    /// Sends a command. A long command is executed while the device is polled.
    pub fn begin(&mut self, command: Command, request: &(impl IntoBytes + Immutable)) {
        self.handle_interrupts();
        self.interrupts.responses = 0;
        let slot = slot(command, request.as_bytes());
        self.ram.write_bytes(self.driver().command_slot, &slot);
        self.write_register(Register::Request, 0);
    }

    /// Waits for the end of the last command and returns its answer.
    pub fn answer<A: FromBytes>(&mut self, command: Command) -> Result<A, CommandError> {
        self.end(command)?;
        let mut response = [0; RESPONSE_BYTES];
        self.ram
            .read_bytes(self.driver().response_slot, &mut response);
        let header = ResponseHeader::read_from_prefix(&response)
            .expect("the slot is longer")
            .0;
        if header.ack.get() != ACK + command as u32 || header.response.get() != COOKIE {
            return Err(CommandError::Acknowledged(header.ack.get()));
        }
        let answer = A::read_from_prefix(&response[HEADER_BYTES..]);
        Ok(answer.expect("the slot is longer").0)
    }

    /// Executes a command without reading its answer.
    pub fn tell(
        &mut self,
        command: Command,
        request: &(impl IntoBytes + Immutable),
    ) -> Result<(), CommandError> {
        self.begin(command, request);
        self.end(command)
    }

    /// Puts any bytes into the slot and executes them.
    pub fn execute_raw(&mut self, slot: &[u8; REQUEST_BYTES]) -> u32 {
        self.ram.write_bytes(self.driver().command_slot, slot);
        self.write_checked(Register::Request, 0)
    }

    fn end(&mut self, command: Command) -> Result<(), CommandError> {
        let outcome = self.read_register(Register::Error);
        self.handle_interrupts();
        let interrupts = self.interrupts.responses;
        let expected = u32::from(outcome == 0 && is_waited(command));
        match outcome {
            _ if interrupts != expected => Err(CommandError::Interrupts(interrupts)),
            0 => Ok(()),
            error => Err(CommandError::Refused(error)),
        }
    }
}

fn slot(command: Command, body: &[u8]) -> [u8; REQUEST_BYTES] {
    let mut slot = [STACK; REQUEST_BYTES];
    let header = RequestHeader {
        response: COOKIE.into(),
        command: (command as u32).into(),
        reserved: 0.into(),
    };
    slot[..HEADER_BYTES].copy_from_slice(header.as_bytes());
    slot[HEADER_BYTES..][..body.len()].copy_from_slice(body);
    slot
}
