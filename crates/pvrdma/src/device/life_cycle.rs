//! The life of a device, from reset to active, and back at any moment.

use std::fmt;

use vrdma_verbs::Time;
use vrdma_verbs::object::Identity;

use super::{Device, Stage, registers};
use crate::abi::event::EventCode;
use crate::abi::register::Vector;
use crate::adapter::{Adapter, Turn};
use crate::commands::Errno;
use crate::config_space::ConfigSpace;
use crate::handshake::Handshake;
use crate::interrupts::Interrupts;
use crate::kept::Kind;

/// Spreads lives over the seeds, so that neighbouring adapters do not meet (the golden ratio).
const LIFE_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// All that a guest had of the device until a reset. The time to free it grows with the number of objects: 10 ms and
/// more for a hundred thousand.
pub struct Ended {
    _adapter: Box<Adapter>,
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ended")
    }
}

impl Device {
    /// DSRHIGH: resets the function and reads the region. The capabilities are in the guest's memory when this returns:
    /// the driver reads them there at once.
    pub(super) fn configure(&mut self, high: u32, now: Time) {
        self.reset_function();
        let address = u64::from(high) << 32 | u64::from(self.dsr_low);
        let memory = self.space.view();
        match Handshake::read(&memory, address, &self.config) {
            Ok(handshake) => {
                self.stage = Stage::Configured;
                self.handshake = Some(Box::new(handshake));
            }
            Err(_) if self.log_limit.allows(now) => {
                tracing::debug!(address, "a guest's shared region cannot be used");
            }
            Err(_) => {}
        }
    }

    /// ACTIVATE. A second one changes nothing.
    pub(super) fn activate(&mut self, now: Time) -> Result<(), Errno> {
        let handshake = match (&self.stage, &self.handshake) {
            (Stage::Configured, Some(handshake)) => handshake,
            (Stage::Active(..), _) => return Ok(()),
            _ => return Err(Errno::Invalid),
        };
        let memory = self.space.view();
        let terms = handshake.agree(&memory).map_err(|refusal| {
            if self.log_limit.allows(now) {
                tracing::debug!(%refusal, "a guest's driver was not activated");
            }
            Errno::Invalid
        })?;
        drop(memory);
        self.lives += 1;
        let slots = terms.slots;
        let adapter = self.new_adapter(terms);
        self.stage = Stage::Active(Box::new(adapter), slots);
        Ok(())
    }

    /// UNQUIESCE: the paired network device is up. There is nothing to resume.
    pub(super) fn unquiesce(&self) -> Result<(), Errno> {
        match self.stage {
            Stage::Active(..) => Ok(()),
            _ => Err(Errno::Invalid),
        }
    }

    pub(super) fn identity(&self) -> Identity {
        let identity = self.config.identity;
        let seed = identity
            .seed
            .wrapping_add(self.lives.wrapping_mul(LIFE_STEP));
        Identity { seed, ..identity }
    }

    /// Forgets everything that the guest made: objects, rings, slots, pending interrupts.
    pub(super) fn reset_function(&mut self) {
        self.end_life(Stage::Reset);
        self.frozen = false;
        self.interrupts = Interrupts::new();
        self.error = registers::NOT_ACTIVE;
    }

    fn end_life(&mut self, next: Stage) {
        self.handshake = None;
        if let Stage::Active(mut adapter, _) = std::mem::replace(&mut self.stage, next) {
            self.gids_cleared = true;
            self.journal = adapter.take_journal().or_else(|| self.journal.take());
            if let Some(journal) = &mut self.journal {
                let kinds = Kind::OF_A_LIFE.into_iter();
                kinds.for_each(|kind| journal.forget_all(kind as u16));
            }
            self.log_limit = adapter.log_limit;
            self.ended = Some(Ended { _adapter: adapter });
        }
    }

    /// Takes the life that ended since the last call, if any. Drop it where nobody waits.
    pub fn take_ended(&mut self) -> Option<Ended> {
        self.ended.take()
    }

    /// Resets the PCI function, with registers and configuration space. The calling thread must hold no view of the
    /// space, which loses bus mastering.
    pub fn reset(&mut self) {
        self.reset_function();
        self.dsr_low = 0;
        self.mac = [0; 2];
        self.config_space =
            ConfigSpace::new(Vector::COUNT, super::pci::doorbell_bytes(&self.config));
        self.space.set_bus_master(false);
    }

    /// Reacts to a change of the guest's memory map. If the device's own rings or slots are gone, the device fails;
    /// queues find out when they are next used.
    pub fn memory_changed(&mut self) {
        let may_work = self.may_work();
        let Stage::Active(adapter, slots) = &mut self.stage else {
            return;
        };
        if !may_work {
            return;
        }
        let memory = self.space.view();
        if !slots.are_mapped(&memory) || !adapter.rings_are_mapped(&memory) {
            adapter.break_down();
        }
        drop(memory);
        self.give_up_if_broken();
    }

    /// Stops the device for good if the rings that report everything else are unusable.
    pub(super) fn give_up_if_broken(&mut self) {
        let Stage::Active(adapter, _) = &mut self.stage else {
            return;
        };
        if !adapter.is_broken() {
            return;
        }
        if adapter.log_limit.allows(self.batch_time) {
            tracing::warn!("a guest's device rings or slots are unusable: the device stops");
        }
        let memory = self.space.view();
        // The event ring may still be there; if it is not, the guest cannot be told.
        adapter.push_event(
            Turn {
                memory: &memory,
                now: self.batch_time,
            },
            EventCode::DeviceFatal,
            0,
        );
        drop(memory);
        self.interrupts.raise(adapter.take_raised());
        self.error = Errno::Fault as u32;
        self.end_life(Stage::Failed);
    }
}
