//! An adapter at one of the two daemons: what the daemon is asked of it.

use std::path::Path;
use std::time::Duration;

use vrdma_api::{
    Adapter, ArrivedContext, Destination, FreezeRequest, HandOverRequest, HandedOverContext,
    MemoryDigest, Name, RestoreRequest, Status, TrackedAdapter, WrittenMemory, paths,
};
use vrdma_api_client::{Client, Error, Method};

use crate::error::Cause;
use crate::machine::Side;
use crate::pci::ConfigSpace;

/// Why there was no release.
pub(crate) enum NotReleased {
    /// The daemon said so, or nobody was there to do it.
    Surely(Cause),
    /// It did not say what it did.
    Perhaps(Cause),
}

/// How long a daemon may take to read all of a guest's memory (a TiB at 2 GB/s), to tell QEMU of its pages, or to send a
/// context to another daemon.
const READING_LIMIT: Duration = Duration::from_secs(600);

pub(crate) struct AdapterHandle {
    client: Client,
    /// For what takes as long as the memory is large.
    patient: Client,
    name: Name,
    side: Side,
}

impl AdapterHandle {
    fn new(socket: &Path, name: &Name, side: Side) -> Result<Self, Cause> {
        let client = || Client::new(socket).map_err(|error| cause(side, &error));
        Ok(Self {
            client: client()?,
            patient: client()?.with_patience(READING_LIMIT),
            name: name.clone(),
            side,
        })
    }

    /// Those of these names, all of one daemon.
    pub(crate) fn all(socket: &Path, names: &[Name], side: Side) -> Result<Vec<Self>, Cause> {
        let handles = names.iter().map(|name| Self::new(socket, name, side));
        handles.collect()
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    /// What the daemon tells of it.
    pub(crate) fn look(&self) -> Result<Adapter, Cause> {
        let adapter = self.client.get(&paths::adapter(&self.name));
        adapter.map_err(|error| self.cause(&error))
    }

    /// What it writes is noted from now on; its PCI configuration.
    pub(crate) fn track(&self) -> Result<ConfigSpace, Cause> {
        let tracked = self.client.post(&paths::track(&self.name), &());
        let tracked: TrackedAdapter = tracked.map_err(|error| self.cause(&error))?;
        self.parse_config(&tracked.config_space)
    }

    /// What its daemon tells of that.
    pub(crate) fn parse_config(&self, bytes: &[u8]) -> Result<ConfigSpace, Cause> {
        ConfigSpace::from_bytes(bytes).ok_or_else(|| {
            let (side, length) = (self.side.name(), bytes.len());
            Cause::new(format!(
                "the {side}'s daemon tells of {length} bytes of PCI configuration, not 256; use the same release everywhere"
            ))
        })
    }

    /// How much of the memory it has written since it is tracked, in bytes.
    pub(crate) fn written(&self) -> Result<u64, Cause> {
        let written: Result<WrittenMemory, _> = self.client.get(&paths::written(&self.name));
        written
            .map(|written| written.bytes)
            .map_err(|error| self.cause(&error))
    }

    /// The context of the adapter, which does nothing from now on.
    pub(crate) fn freeze(&self, request: FreezeRequest) -> Result<Vec<u8>, Cause> {
        let body = serde_json::to_vec(&request).map_err(|error| Cause::new(error.to_string()))?;
        let path = paths::freeze(&self.name);
        let answer = self.client.ask(Method::POST, &path, body);
        answer
            .map(|answer| answer.body.to_vec())
            .map_err(|error| self.cause(&error))
    }

    /// Whether its daemon takes contexts from others, and brings them.
    pub(crate) fn daemon_listens(&self) -> Result<bool, Cause> {
        let status = self.client.get(paths::STATUS);
        let status: Status = status.map_err(|error| self.cause(&error))?;
        Ok(status.migration.is_some())
    }

    /// Where another daemon may bring its context.
    pub(crate) fn expect(&self) -> Result<Destination, Cause> {
        let expected = self.client.post(&paths::expect(&self.name), &());
        expected.map_err(|error| self.cause(&error))
    }

    /// Whether its daemon can bring its context there.
    pub(crate) fn reach(&self, to: Destination) -> Result<(), Cause> {
        let body = serde_json::to_vec(&to).map_err(|error| Cause::new(error.to_string()))?;
        let path = paths::reach(&self.name);
        let answer = self.client.ask(Method::POST, &path, body);
        answer.map(drop).map_err(|error| self.cause(&error))
    }

    /// The adapter does nothing from now on, and its daemon brings its context to another one.
    pub(crate) fn hand_over(&self, request: HandOverRequest) -> Result<HandedOverContext, Cause> {
        let handed_over = self.patient.post(&paths::hand_over(&self.name), &request);
        handed_over.map_err(|error| self.cause(&error))
    }

    /// QEMU sends what the frozen adapter has written: how much, in bytes.
    pub(crate) fn resend(&self) -> Result<u64, Cause> {
        let resent = self.patient.post(&paths::resend(&self.name), &());
        let resent: WrittenMemory = resent.map_err(|error| self.cause(&error))?;
        Ok(resent.bytes)
    }

    /// The context of the tracked adapter, which stands still no longer than that takes.
    pub(crate) fn save(&self) -> Result<Vec<u8>, Cause> {
        let context = self.client.fetch(&paths::save(&self.name));
        context
            .map(|bytes| bytes.to_vec())
            .map_err(|error| self.cause(&error))
    }

    pub(crate) fn thaw(&self) -> Result<(), Cause> {
        self.post(&paths::thaw(&self.name))
    }

    /// The point of no return.
    pub(crate) fn release(&self) -> Result<(), NotReleased> {
        let path = paths::release(&self.name);
        let answer = self.client.ask(Method::POST, &path, Vec::new());
        answer.map(drop).map_err(|error| match &error {
            Error::Refused { .. } | Error::Unreachable { .. } | Error::NoRuntime(_) => {
                NotReleased::Surely(self.cause(&error))
            }
            Error::Silent { .. } | Error::NotUnderstood { .. } => {
                NotReleased::Perhaps(self.cause(&error))
            }
        })
    }

    pub(crate) fn put_context(&self, context: Vec<u8>) -> Result<ArrivedContext, Cause> {
        let path = paths::context(&self.name);
        let answer = self.client.ask(Method::PUT, &path, context);
        let answer = answer.map_err(|error| self.cause(&error))?;
        serde_json::from_slice(&answer.body).map_err(|error| {
            let side = self.side.name();
            Cause::new(format!(
                "the {side}'s daemon tells of the context in a way that is not known ({error}); use the same release everywhere"
            ))
        })
    }

    /// The context that has come, if the adapter can be restored from it as things are, or was.
    pub(crate) fn arrived(&self) -> Result<ArrivedContext, Cause> {
        let arrived = self.client.get(&paths::context(&self.name));
        arrived.map_err(|error| self.cause(&error))
    }

    /// Whether the adapter that was restored still waits to be activated.
    pub(crate) fn check_restored(&self) -> Result<(), Cause> {
        match self.arrived()?.restored {
            true => Ok(()),
            false => Err(Cause::new(format!(
                "the adapter {} was reset at the {} after it had been restored; let nobody else use it",
                self.name,
                self.side.name()
            ))),
        }
    }

    /// Of the guest of the frozen adapter.
    pub(crate) fn memory_digest(&self) -> Result<MemoryDigest, Cause> {
        let digest = self.patient.get(&paths::memory_digest(&self.name));
        digest.map_err(|error| self.cause(&error))
    }

    pub(crate) fn forget_context(&self) -> Result<(), Cause> {
        let deleted = self.client.delete(&paths::context(&self.name));
        deleted.map_err(|error| self.cause(&error))
    }

    pub(crate) fn activate(&self) -> Result<(), Cause> {
        self.post(&paths::activate(&self.name))
    }

    pub(crate) fn restore(&self, request: &RestoreRequest) -> Result<(), Cause> {
        let body = serde_json::to_vec(request).map_err(|error| Cause::new(error.to_string()))?;
        let path = paths::restore(&self.name);
        let answer = self.client.ask(Method::POST, &path, body);
        answer.map(drop).map_err(|error| self.cause(&error))
    }

    fn post(&self, path: &str) -> Result<(), Cause> {
        let answer = self.client.ask(Method::POST, path, Vec::new());
        answer.map(drop).map_err(|error| self.cause(&error))
    }

    fn cause(&self, error: &Error) -> Cause {
        cause(self.side, error)
    }
}

fn cause(side: Side, error: &Error) -> Cause {
    match side {
        Side::Alone => Cause::new(error.to_string()),
        Side::Source | Side::Destination => Cause::new(format!("at the {}: {error}", side.name())),
    }
}
