//! An adapter at one of the two daemons, and the requests to the daemon about it.

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

/// Why an adapter was not released.
pub(crate) enum NotReleased {
    /// The daemon refused, or no daemon was reached: the adapter is certainly not released.
    Surely(Cause),
    /// No usable answer came: the adapter may be released.
    Perhaps(Cause),
}

/// How long a daemon may take to read all of a guest's memory (a TiB at 2 GB/s), to tell QEMU of its pages, or to send
/// a context to another daemon.
const READING_LIMIT: Duration = Duration::from_secs(600);

pub(crate) struct AdapterHandle {
    client: Client,
    /// Client for requests whose time grows with the size of the memory.
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

    /// Returns the adapters of these names, all of one daemon.
    pub(crate) fn all(socket: &Path, names: &[Name], side: Side) -> Result<Vec<Self>, Cause> {
        let handles = names.iter().map(|name| Self::new(socket, name, side));
        handles.collect()
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    /// Returns what the daemon reports of the adapter.
    pub(crate) fn look(&self) -> Result<Adapter, Cause> {
        let adapter = self.client.get(&paths::adapter(&self.name));
        adapter.map_err(|error| self.cause(&error))
    }

    /// Tracks the pages that the adapter writes from now on. Returns its PCI configuration.
    pub(crate) fn track(&self) -> Result<ConfigSpace, Cause> {
        let tracked = self.client.post(&paths::track(&self.name), &());
        let tracked: TrackedAdapter = tracked.map_err(|error| self.cause(&error))?;
        self.parse_config(&tracked.config_space)
    }

    /// Parses the daemon's answer to that request.
    pub(crate) fn parse_config(&self, bytes: &[u8]) -> Result<ConfigSpace, Cause> {
        ConfigSpace::from_bytes(bytes).ok_or_else(|| {
            let (side, length) = (self.side.name(), bytes.len());
            Cause::new(format!(
                "the {side}'s daemon tells of {length} bytes of PCI configuration, not 256; use the same release everywhere"
            ))
        })
    }

    /// Returns how much of the memory the adapter has written since it was tracked, in bytes.
    pub(crate) fn written(&self) -> Result<u64, Cause> {
        let written: Result<WrittenMemory, _> = self.client.get(&paths::written(&self.name));
        written
            .map(|written| written.bytes)
            .map_err(|error| self.cause(&error))
    }

    /// Stops the adapter, and returns its context.
    pub(crate) fn freeze(&self, request: FreezeRequest) -> Result<Vec<u8>, Cause> {
        let body = serde_json::to_vec(&request).map_err(|error| Cause::new(error.to_string()))?;
        let path = paths::freeze(&self.name);
        let answer = self.client.ask(Method::POST, &path, body);
        answer
            .map(|answer| answer.body.to_vec())
            .map_err(|error| self.cause(&error))
    }

    /// Whether its daemon exchanges contexts with other daemons.
    pub(crate) fn daemon_listens(&self) -> Result<bool, Cause> {
        let status = self.client.get(paths::STATUS);
        let status: Status = status.map_err(|error| self.cause(&error))?;
        Ok(status.migration.is_some())
    }

    /// Has its daemon expect the context, and returns where another daemon may bring it.
    pub(crate) fn expect(&self) -> Result<Destination, Cause> {
        let expected = self.client.post(&paths::expect(&self.name), &());
        expected.map_err(|error| self.cause(&error))
    }

    /// Checks that its daemon can bring the context there.
    pub(crate) fn reach(&self, to: Destination) -> Result<(), Cause> {
        let body = serde_json::to_vec(&to).map_err(|error| Cause::new(error.to_string()))?;
        let path = paths::reach(&self.name);
        let answer = self.client.ask(Method::POST, &path, body);
        answer.map(drop).map_err(|error| self.cause(&error))
    }

    /// Stops the adapter, and has its daemon bring the context to another one.
    pub(crate) fn hand_over(&self, request: HandOverRequest) -> Result<HandedOverContext, Cause> {
        let handed_over = self.patient.post(&paths::hand_over(&self.name), &request);
        handed_over.map_err(|error| self.cause(&error))
    }

    /// Has QEMU send what the frozen adapter has written. Returns how much that is, in bytes.
    pub(crate) fn resend(&self) -> Result<u64, Cause> {
        let resent = self.patient.post(&paths::resend(&self.name), &());
        let resent: WrittenMemory = resent.map_err(|error| self.cause(&error))?;
        Ok(resent.bytes)
    }

    /// Returns the context of the tracked adapter, which stands still only for as long as that takes.
    pub(crate) fn save(&self) -> Result<Vec<u8>, Cause> {
        let context = self.client.fetch(&paths::save(&self.name));
        context
            .map(|bytes| bytes.to_vec())
            .map_err(|error| self.cause(&error))
    }

    pub(crate) fn thaw(&self) -> Result<(), Cause> {
        self.post(&paths::thaw(&self.name))
    }

    /// Has the daemon give the adapter up: the point of no return.
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

    /// Returns the context that has arrived, if the adapter can be restored from it as things are, or was.
    pub(crate) fn arrived(&self) -> Result<ArrivedContext, Cause> {
        let arrived = self.client.get(&paths::context(&self.name));
        arrived.map_err(|error| self.cause(&error))
    }

    /// Checks that the restored adapter still waits to be activated.
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

    /// Digests the memory of the frozen adapter's guest.
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
