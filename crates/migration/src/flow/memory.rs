//! Reports of both QEMUs while the memory is sent.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Flow;
use crate::error::Cause;
use crate::progress::{MemoryProgress, Phase, Progress};
use crate::qmp::EventKind;
use crate::relay::Relay;

/// How often progress is reported and the destination is checked.
pub(super) const TELL_EVERY: Duration = Duration::from_millis(250);

/// Takes only events that have come already.
pub(super) const AT_ONCE: Duration = Duration::ZERO;

/// How long the rest may take: some hundred milliseconds, unless QEMU's estimate was wrong.
pub(super) const SWITCH_OVER_LIMIT: Duration = Duration::from_secs(60);

impl Flow<'_> {
    /// Copies until the VM stands still and QEMU waits for us.
    pub(super) fn copy(&mut self) -> Result<(), Cause> {
        self.begin(Phase::Copy)?;
        self.offer_file()?;
        let [from, to] = self.uris();
        let hosts = self.hosts();
        let destination = &mut hosts.destination.machine;
        destination.execute("migrate-incoming", to)?;
        self.undo.migrating = true;
        self.hosts().source.machine.execute("migrate", from)?;
        loop {
            match self.hosts().source.machine.next_event(TELL_EVERY)? {
                Some(event) => match event.kind {
                    EventKind::Stop => self.stopped = Some(event.at),
                    EventKind::Resume => self.stopped = None,
                    EventKind::Migration(status) if status == "pre-switchover" => {
                        return self.withdraw_file();
                    }
                    EventKind::Migration(status) => self.check_source(&status, "pre-switchover")?,
                    EventKind::Pass(pass) => self.start_post_copy(pass)?,
                },
                None => self.tell_memory()?,
            }
            self.check_interrupted()?;
        }
    }

    /// Returns the URIs for both QEMUs: those of the relays, if there are any.
    pub(super) fn uris(&self) -> [Value; 2] {
        let uri = &self.transfer.options.memory.uri;
        let relay = self.transfer.relay.as_ref();
        let mut uris = relay.map_or([uri, uri], |relay| relay.uris().each_ref());
        if let Some(file) = &self.undo.file {
            uris[0] = &file.uri;
        }
        uris.map(|uri| json!({ "uri": uri }))
    }

    /// Has the source's QEMU write its stream into the relay's file, unless memory is to follow: that needs requests in
    /// the other direction.
    fn offer_file(&mut self) -> Result<(), Cause> {
        let relay = self.transfer.relay.as_ref();
        if let Some(relay) = relay.filter(|_| !self.transfer.options.memory.post_copy) {
            self.undo.file = self.transfer.hosts.source.machine.offer(relay)?;
        }
        Ok(())
    }

    /// Withdraws the file. All pages but the last ones have come, so QEMU has opened it.
    fn withdraw_file(&mut self) -> Result<(), Cause> {
        let source = &mut self.transfer.hosts.source.machine;
        let file = self.undo.file.as_ref();
        file.map_or(Ok(()), |file| source.withdraw(file))
    }

    /// Reports a relay that has ended, before QEMU notices.
    pub(super) fn watch_relay(&self) -> Result<(), Cause> {
        let relay = self.transfer.relay.as_ref();
        relay.and_then(Relay::known_failure).map_or(Ok(()), Err)
    }

    pub(super) fn tell_memory(&mut self) -> Result<(), Cause> {
        self.watch_destination()?;
        self.hosts().destination.first_adapter().look()?;
        let info = self.hosts().source.machine.migration()?;
        self.watcher.progress(&Progress::Memory(MemoryProgress {
            rounds: info.ram.dirty_sync_count,
            remaining_bytes: info.ram.remaining,
            total_bytes: info.ram.total,
            pages_per_second: info.ram.pages_per_second,
            expected_downtime_ms: info.expected_downtime,
        }));
        Ok(())
    }

    /// Reports that the destination has ended, rather than that a connection broke.
    pub(super) fn watch_destination(&mut self) -> Result<(), Cause> {
        while let Some(event) = self.hosts().destination.machine.next_event(AT_ONCE)? {
            self.heed_destination(&event.kind)?;
        }
        Ok(())
    }

    pub(super) fn heed_destination(&mut self, event: &EventKind) -> Result<(), Cause> {
        match event {
            EventKind::Migration(status) if status == "failed" => {
                let info = self.hosts().destination.machine.migration()?;
                Err(Cause::new(format!(
                    "the destination's QEMU could not load the VM ({}); start it with the same options as the source's",
                    info.error_desc.as_deref().unwrap_or("see its log")
                )))
            }
            EventKind::Migration(status) => {
                self.is_loaded |= status == "completed";
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks a status of the source that is not the one that is waited for.
    pub(super) fn check_source(&mut self, status: &str, wanted: &str) -> Result<(), Cause> {
        match status {
            "failed" => {
                // A destination that ended is the better explanation.
                self.watch_destination()?;
                if let Some(why) = self.transfer.relay.as_ref().and_then(Relay::failure) {
                    return Err(why);
                }
                let info = self.hosts().source.machine.migration()?;
                let said = info.error_desc.unwrap_or_else(|| "see its log".to_owned());
                Err(Cause::new(format!(
                    "the source's QEMU could not send the VM: {said}"
                )))
            }
            "cancelled" => Err(Cause::new("somebody cancelled it at the source's QEMU")),
            "completed" => Err(Cause::new(format!(
                "the source's QEMU did not wait for {wanted}; use QEMU 11 and let nobody else steer it"
            ))),
            _ => Ok(()),
        }
    }

    /// Waits until the destination's QEMU has loaded everything.
    pub(super) fn switch_over(&mut self) -> Result<(), Cause> {
        let deadline = Instant::now() + SWITCH_OVER_LIMIT;
        while self.sending_ended.is_none() {
            match self.hosts().source.machine.next_event(TELL_EVERY)? {
                Some(event) => match event.kind {
                    EventKind::Migration(status) if status == "device" => {
                        self.sending_began = Some(event.timestamp);
                    }
                    EventKind::Migration(status) if status == "completed" => {
                        self.sending_ended = Some(event.timestamp);
                    }
                    EventKind::Migration(status) => self.check_source(&status, "the end")?,
                    _ => {}
                },
                None => self.watch_destination()?,
            }
            check_in_time(deadline)?;
        }
        while !self.is_loaded {
            if let Some(event) = self.hosts().destination.machine.next_event(TELL_EVERY)? {
                self.heed_destination(&event.kind)?;
            } else {
                self.watch_relay()?;
            }
            check_in_time(deadline)?;
        }
        Ok(())
    }
}

pub(super) fn check_in_time(deadline: Instant) -> Result<(), Cause> {
    if Instant::now() < deadline {
        return Ok(());
    }
    Err(Cause::new(format!(
        "the rest of the VM's memory did not go over within {SWITCH_OVER_LIMIT:?}; look at the network between the hosts"
    )))
}
