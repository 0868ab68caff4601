//! What all shards know together: adapters of processes, their users, and who may use what.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_provider::message::AdapterReply;
use vrdma_switch::PortId;

use super::admission::Admission;
use super::caller::Caller;
use super::directory::Directory;
use super::users::Users;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// All adapters of processes.
    pub directory: Arc<Directory>,
    /// All users of them.
    pub users: Arc<Users>,
    /// Who may use which adapter.
    pub admission: Arc<Admission>,
    /// Whether pages of all processes of the daemon's own user are taken to be at hand, also of those in
    /// containers.
    pub trusts_own_user: bool,
    /// `/dev/userfaultfd`, if clients get it.
    pub userfaultfd: Option<Arc<OwnedFd>>,
}

impl Registry {
    /// The same with or without that trust.
    pub fn trusting_own_user(self, trusts_own_user: bool) -> Self {
        Self {
            trusts_own_user,
            ..self
        }
    }

    /// The same, with what clients get to watch their memory by.
    pub fn handing_out(self, userfaultfd: Option<OwnedFd>) -> Self {
        Self {
            userfaultfd: userfaultfd.map(Arc::new),
            ..self
        }
    }

    /// A descriptor for a client. Errors: `NODEV`, there is none; `MFILE`.
    pub(super) fn userfaultfd(&self) -> Result<OwnedFd, Errno> {
        let device = self.userfaultfd.as_ref().ok_or(Errno::NODEV)?;
        device.try_clone().map_err(|_| Errno::MFILE)
    }

    /// The adapter with that name; the only one that the caller may use if the name is empty.
    ///
    /// # Errors
    /// `NODEV`: there is none. `ACCESS`: it is not the caller's to use.
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

    /// [`find`](Self::find) for who opens it: the log is told of a refusal.
    pub(super) fn named(&self, name: &str, caller: &Caller) -> Result<PortId, Errno> {
        let found = self.find(name, caller);
        if found == Err(Errno::ACCESS) {
            self.users.tell_refused(caller, Some(name));
        }
        found
    }

    /// What a library is told of the adapter with that name. Errors: as of [`find`](Self::find).
    pub(super) fn described_as(&self, name: &str, caller: &Caller) -> Result<AdapterReply, Errno> {
        let port = self.named(name, caller)?;
        self.directory.described_at(port).ok_or(Errno::NODEV)
    }

    /// What a library is told of the adapter at that place in the list of those that it may use.
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
