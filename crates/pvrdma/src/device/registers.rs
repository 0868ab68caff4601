//! Reads and writes of each register.

use std::sync::Arc;

use vrdma_memory::View;
use vrdma_verbs::Time;

use super::{Device, Stage};
use crate::abi::register::{Control, Register, Vector};
use crate::abi::version;
use crate::adapter::Turn;
use crate::commands::{self, Errno, Outcome};

/// Value of the error register before the device is active: nothing has succeeded yet.
pub(super) const NOT_ACTIVE: u32 = 0xffff;
/// The only value of the request register with a meaning.
const EXECUTE: u32 = 0;
/// Value of write-only and nonexistent registers when read.
const NOTHING: u32 = u32::MAX;

impl Device {
    pub(super) fn read_register(&mut self, register: Register) -> u32 {
        match register {
            Register::Version => version::QP_HANDLE,
            Register::Error => self.error,
            Register::InterruptCause => self.read_causes(),
            Register::InterruptMask => self.interrupts.mask(),
            Register::MacLow => self.mac[0],
            Register::MacHigh => self.mac[1],
            Register::DsrLow | Register::DsrHigh | Register::Control | Register::Request => NOTHING,
        }
    }

    fn read_causes(&mut self) -> u32 {
        if let Stage::Active(adapter, _) = &mut self.stage {
            self.interrupts.raise(adapter.take_raised());
        }
        self.interrupts.read_causes()
    }

    pub(super) fn write_register(&mut self, register: Register, value: u32, now: Time) {
        match register {
            Register::DsrLow => self.dsr_low = value,
            Register::DsrHigh => self.configure(value, now),
            Register::Control => self.error = outcome(self.control(value, now)),
            Register::Request if value == EXECUTE => self.error = self.request(now),
            Register::InterruptMask => self.interrupts.set_mask(value),
            Register::MacLow => self.mac[0] = value,
            Register::MacHigh => self.mac[1] = value,
            Register::Request | Register::Version | Register::Error | Register::InterruptCause => {}
        }
    }

    /// Whether [`poll`](Self::poll) is executing a command piece by piece. An access to a register waits for the
    /// command's end; a caller with other work holds back register accesses until then.
    pub fn is_busy(&self) -> bool {
        matches!(&self.stage, Stage::Active(adapter, _) if adapter.long.is_some())
    }

    /// Continues a long command.
    pub(super) fn go_on(&mut self, memory: &View<'_>, now: Time) {
        let Stage::Active(adapter, slots) = &mut self.stage else {
            return;
        };
        let outcome = commands::go_on(adapter, Turn { memory, now }, slots);
        self.error = self.conclude(outcome);
    }

    /// Finishes a long command, however long that takes.
    pub(super) fn finish_command(&mut self, now: Time) {
        while self.is_busy() {
            let space = Arc::clone(&self.space);
            self.go_on(&space.view(), now);
        }
    }

    fn control(&mut self, value: u32, now: Time) -> Result<(), Errno> {
        match Control::from_code(value).ok_or(Errno::Invalid)? {
            Control::Activate => self.activate(now),
            Control::Unquiesce => self.unquiesce(),
            Control::Reset => {
                self.reset_function();
                Ok(())
            }
        }
    }

    /// Executes the command in the slot and returns the value of the error register.
    pub(super) fn request(&mut self, now: Time) -> u32 {
        let Stage::Active(adapter, slots) = &mut self.stage else {
            return Errno::Invalid as u32;
        };
        let memory = self.space.view();
        let turn = Turn {
            memory: &memory,
            now,
        };
        let outcome = commands::execute(adapter, turn, slots);
        drop(memory);
        self.conclude(outcome)
    }

    /// The value of the error register after a command.
    fn conclude(&mut self, outcome: Outcome) -> u32 {
        if let (Outcome::SlotLost, Stage::Active(adapter, _)) = (outcome, &mut self.stage) {
            adapter.break_down();
        }
        self.give_up_if_broken();
        match outcome {
            Outcome::Answered => {
                self.interrupts.raise(Vector::Response.bit());
                0
            }
            Outcome::Done | Outcome::UnderWay => 0,
            Outcome::Refused(errno) => errno as u32,
            Outcome::SlotLost => Errno::Fault as u32,
        }
    }
}

fn outcome(result: Result<(), Errno>) -> u32 {
    result.map_or_else(|errno| errno as u32, |()| 0)
}
