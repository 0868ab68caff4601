//! State that all shards share: process adapters, their users, and which users may use which adapter.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_provider::message::AdapterReply;
use vrdma_switch::PortId;

use super::admission::Admission;
use super::caller::Caller;
use super::directory::Directory;
use super::users::Users;

/// State that all shards share.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// All process adapters.
    pub directory: Arc<Directory>,
    /// All users of these adapters.
    pub users: Arc<Users>,
    /// The users and groups that may use each adapter.
    pub admission: Arc<Admission>,
    /// Whether the pages of all processes of the daemon's own user are assumed to be at hand, also of processes in
    /// containers.
    pub trusts_own_user: bool,
    /// `/dev/userfaultfd`, if clients get it.
    pub userfaultfd: Option<Arc<OwnedFd>>,
}

impl Registry {
    /// Sets whether to trust the daemon's own user in that.
    pub fn trusting_own_user(self, trusts_own_user: bool) -> Self {
        Self {
            trusts_own_user,
            ..self
        }
    }

    /// Sets the device that clients get to watch their memory.
    pub fn handing_out(self, userfaultfd: Option<OwnedFd>) -> Self {
        Self {
            userfaultfd: userfaultfd.map(Arc::new),
            ..self
        }
    }

    /// Returns a descriptor of the device for a client. Errors: `NODEV` (there is none), `MFILE`.
    pub(super) fn userfaultfd(&self) -> Result<OwnedFd, Errno> {
        let device = self.userfaultfd.as_ref().ok_or(Errno::NODEV)?;
        device.try_clone().map_err(|_| Errno::MFILE)
    }

    /// Finds the adapter of that name, or, if the name is empty, the only one that the caller may use.
    ///
    /// # Errors
    /// `NODEV`: there is none. `ACCESS`: the caller may not use it.
    pub(super) fn find(&self, name: &str, caller: &Caller) -> Result<PortId, Errno> {
        let name = match &caller.only {
            Some(only) if name.is_empty() || name == only.as_str() => only.as_str(),
            Some(_) => return Err(Errno::NODEV),
            None => name,
        };
        if name.is_empty() {
            let usable = self.admission.usable(caller);
            return self.directory.only(&usable).ok_or(Errno::NODEV);
        }
        let port = self.directory.named(name).ok_or(Errno::NODEV)?;
        let admitted = self.admission.admits(port, caller);
        admitted.then_some(port).ok_or(Errno::ACCESS)
    }

    /// As [`find`](Self::find), for opening an adapter: logs a refusal.
    pub(super) fn named(&self, name: &str, caller: &Caller) -> Result<PortId, Errno> {
        let found = self.find(name, caller);
        if found == Err(Errno::ACCESS) {
            self.users.tell_refused(caller, Some(name));
        }
        found
    }

    /// Describes the adapter of that name for a library. Errors: as of [`find`](Self::find).
    pub(super) fn described_as(&self, name: &str, caller: &Caller) -> Result<AdapterReply, Errno> {
        let port = self.named(name, caller)?;
        self.directory.described_at(port).ok_or(Errno::NODEV)
    }

    /// Describes the adapter at a place in the list of those that the caller may use.
    pub(super) fn described(&self, index: u32, caller: &Caller) -> Option<AdapterReply> {
        if caller.only.is_some() {
            let only = (index == 0).then(|| self.find("", caller).ok()).flatten();
            return self.directory.described_at(only?);
        }
        let usable = self.admission.usable(caller);
        let described = self.directory.described(index, &usable);
        if index == 0 && described.is_none() && !self.directory.is_empty() {
            self.users.tell_refused(caller, None);
        }
        described
    }
}
