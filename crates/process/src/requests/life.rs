//! Opening and closing a context.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use vrdma_adapter::Publishing;
use vrdma_verbs::Time;
use vrdma_verbs::object::Owner;

use crate::context::{Context, Joining};
use crate::kept::Arrival;
use crate::{FIRST_OWNER, Process, Turn, limits};

impl Process {
    /// Makes a context for a client that came by `socket`, and the descriptors of the hello's reply.
    pub(crate) fn open(
        &mut self,
        joining: Joining,
        came: &Arrival<'_>,
    ) -> Result<(Owner, Vec<OwnedFd>), Errno> {
        let number = self.vacant_context();
        if !limits::fits(number - FIRST_OWNER, limits::CLIENTS) {
            return Err(Errno::BUSY);
        }
        let (context, others) = Context::new(joining)?;
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|_| Errno::MFILE);
        let mut fds = vec![
            copy(context.doorbells.page())?,
            copy(context.doorbells.wake())?,
        ];
        fds.extend(others);
        self.contexts.put(number, context);
        let owner = Owner(number);
        if let Err(errno) = self.record_context(owner, came) {
            drop(self.contexts.take(number));
            return Err(errno);
        }
        Ok((owner, fds))
    }

    /// The event that wakes the daemon for this client.
    pub fn doorbell_event(&self, owner: Owner) -> Option<BorrowedFd<'_>> {
        Some(self.contexts.get(owner.0)?.doorbells.wake())
    }

    /// Ends a client: from now on nobody reaches its objects. They are freed in later polls, and only then given back
    /// to the user's quota. Peers find out by their own timers.
    pub fn close(&mut self, owner: Owner, now: Time) {
        self.publish_now(now);
        self.core.hca.retire_owner(owner);
        self.groups_changed = true;
        self.grants.forget_owner(owner);
        self.polled.retain(|polled| *polled != owner);
        self.forget_context(owner);
        self.commit_records();
        if let Some(context) = self.contexts.take(owner.0) {
            self.leaving.insert(owner, context.holdings);
        }
    }

    /// The smallest number that no client has, also none that is still leaving.
    fn vacant_context(&self) -> u32 {
        let mut number = self.contexts.vacant(FIRST_OWNER);
        while self.leaving.contains_key(&Owner(number)) {
            number = self.contexts.vacant(number + 1);
        }
        number
    }

    /// Shows the clients the engine's completions and events: a request may have caused some.
    pub fn publish_now(&mut self, now: Time) {
        let space = self.memory();
        let memory = &space.view();
        self.publish(Turn { memory, now });
    }
}
