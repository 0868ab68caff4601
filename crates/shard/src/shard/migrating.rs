//! The shard's part in moving a VM's adapter to another host or from there.
//!
//! ```text
//!   Freeze ──► held ──no other shard reads its memory──► its peers are told ──next turn──► frozen: what comes for it is lost,
//!                                                                                          as on a wire
//! ```
//! Freezing an adapter with many objects takes milliseconds; peers that hear nothing would take that for a loss, so
//! they are told before. They are also told when it goes on.
//!
//! This module does not know what the control plane does with the results.

use vrdma_host::Member;
use vrdma_switch::PortId;
use vrdma_threads::{Relocated, Reply, is_withdrawn};

use super::Shard;
use super::adapter::Adapter;
use crate::plane::MigrationStep;
use crate::vm::{Frozen, Resending, Restoring, Vm};

/// An adapter that is to be frozen.
pub(super) struct Freezing {
    port: PortId,
    reply: Reply<Result<Box<Frozen>, String>>,
    /// Its peers were told to wait.
    is_told: bool,
}

impl Shard {
    /// Takes one step.
    pub(super) fn migrate(&mut self, port: PortId, step: MigrationStep) {
        match step {
            MigrationStep::Freeze(reply) => self.freezing.push(Freezing {
                port,
                reply,
                is_told: false,
            }),
            MigrationStep::Track(reply) => {
                let _ = reply.send(self.with_vm(port, Vm::track));
            }
            MigrationStep::TrackedMemory(reply) => {
                let _ = reply.send(self.with_vm(port, |vm| vm.tracked_memory()));
            }
            MigrationStep::Resend(resending) => self.resend(port, resending),
            MigrationStep::Thaw(reply) => {
                let _ = reply.send(self.thaw(port));
            }
            MigrationStep::Release(reply) => {
                let _ = reply.send(self.with_vm(port, Vm::release));
            }
            MigrationStep::SetAway(is_away, reply) => {
                let now = self.clock.now();
                self.host.set_away(port, is_away, now);
                let _ = reply.send(());
            }
            MigrationStep::Memory(reply) => {
                let _ = reply.send(self.with_vm(port, |vm| vm.waiting_memory()));
            }
            MigrationStep::FrozenMemory(reply) => {
                let _ = reply.send(self.with_vm(port, |vm| vm.frozen_memory()));
            }
            MigrationStep::Restore(restoring) => self.restore(port, *restoring),
            MigrationStep::TakeMade(made, reply) => {
                let taken = self.with_vm(port, |vm| vm.take_made(*made));
                if let Err(Ok(())) = reply.send(taken) {
                    // The caller gave up at this moment, and takes it for not done.
                    let _ = self.discard(port);
                }
                self.look_at_qemu(port);
            }
            MigrationStep::IsRestored(reply) => {
                let _ = reply.send(self.with_vm(port, |vm| Ok(vm.is_restored())));
            }
            MigrationStep::Discard(reply) => {
                let _ = reply.send(self.discard(port));
            }
            MigrationStep::Activate(reply) => {
                let activated = self.with_vm(port, Vm::activate);
                if activated.is_ok() {
                    self.host.tell_resumed(port, self.clock.now());
                    self.look_at_qemu(port);
                }
                let _ = reply.send(activated);
            }
        }
    }

    /// Follows a VM's client that took the adapter elsewhere, or brought it here, before others hear of its addresses.
    pub(super) fn follow_client(&mut self, port: PortId, relocated: Relocated) {
        let now = self.clock.now();
        self.host.set_away(port, relocated.away, now);
        if !relocated.away {
            self.host.tell_resumed(port, now);
        }
        self.moves.tell(port, relocated);
    }

    fn thaw(&mut self, port: PortId) -> Result<(), String> {
        let was_still = self.host.member(port).is_some_and(Member::is_still);
        self.with_vm(port, Vm::thaw)?;
        if was_still {
            self.host.tell_resumed(port, self.clock.now());
        }
        Ok(())
    }

    /// Does something with a VM's adapter; its addresses may have changed afterwards. The error is a sentence.
    fn with_vm<T>(
        &mut self,
        port: PortId,
        work: impl FnOnce(&mut Vm) -> Result<T, String>,
    ) -> Result<T, String> {
        let now = self.clock.now();
        let vm = self.host.touch(port, now).and_then(Adapter::vm);
        let vm = vm.ok_or_else(|| "only adapters of VMs go to another host".to_owned())?;
        let done = work(vm);
        vm.interrupt();
        self.host.follow_gids(port, now);
        done
    }

    /// Freezes adapters whose memory no other shard reads; whether any has to be looked at again at once.
    pub(super) fn freeze_quiet(&mut self) -> bool {
        let mut worked = false;
        for freezing in std::mem::take(&mut self.freezing) {
            let port = freezing.port;
            if is_withdrawn(&freezing.reply) {
                self.give_up_freezing(&freezing);
            } else if !self.await_quiet(port) {
                self.freezing.push(freezing);
            } else if freezing.is_told {
                self.freeze(freezing);
            } else {
                self.tell_of_freeze(freezing);
                worked = true;
            }
        }
        worked
    }

    fn tell_of_freeze(&mut self, freezing: Freezing) {
        let port = freezing.port;
        match self.with_vm(port, Vm::prepare_freeze) {
            Ok(()) => {
                self.host.tell_paused(port, self.clock.now());
                self.freezing.push(Freezing {
                    is_told: true,
                    ..freezing
                });
            }
            Err(sentence) => {
                self.host.release(port);
                let _ = freezing.reply.send(Err(sentence));
            }
        }
    }

    fn freeze(&mut self, freezing: Freezing) {
        let port = freezing.port;
        let frozen = self.with_vm(port, Vm::freeze).map(Box::new);
        match &frozen {
            Ok(_) => self.host.release(port),
            Err(_) => self.give_up_freezing(&freezing),
        }
        if let Err(Ok(_)) = freezing.reply.send(frozen) {
            // The caller gave up at this moment.
            let _ = self.thaw(port);
        }
    }

    /// Lets an adapter go on that is not frozen after all.
    fn give_up_freezing(&mut self, freezing: &Freezing) {
        let port = freezing.port;
        self.host.release(port);
        if !freezing.is_told {
            return;
        }
        let newer = self.with_vm(port, |vm| {
            vm.advance_epoch();
            Ok(())
        });
        if newer.is_ok() {
            self.host.tell_resumed(port, self.clock.now());
        }
    }

    fn discard(&mut self, port: PortId) -> Result<(), String> {
        self.with_vm(port, |vm| {
            vm.discard();
            Ok(())
        })
    }

    /// Begins to resend. The answer comes when QEMU has answered everything.
    fn resend(&mut self, port: PortId, resending: Resending) {
        let mut resending = Some(resending);
        let begun = self.with_vm(port, |vm| {
            resending.take().into_iter().for_each(|it| vm.resend(it));
            Ok(())
        });
        if let (Err(sentence), Some(resending)) = (begun, resending) {
            let _ = resending.reply.send(Err(sentence));
        }
        self.look_at_qemu(port);
    }

    /// Begins to restore. The answer comes when QEMU has given its own.
    fn restore(&mut self, port: PortId, restoring: Restoring) {
        let mut restoring = Some(restoring);
        let begun = self.with_vm(port, |vm| {
            restoring.take().into_iter().for_each(|it| vm.restore(it));
            Ok(())
        });
        if let (Err(sentence), Some(restoring)) = (begun, restoring) {
            let _ = restoring.reply.send(Err(sentence));
        }
        self.look_at_qemu(port);
    }

    /// Has QEMU's socket looked at: what was written for it leaves, and what waits there is read.
    fn look_at_qemu(&mut self, port: PortId) {
        self.busy.insert(port);
        if let Some(Adapter::Vm(vm)) = self.host.member(port) {
            self.poller.rewatch_qemu(port, vm);
        }
    }
}
