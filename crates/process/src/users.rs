//! Users that have or had sessions, and what is kept of each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use vrdma_memory::Tenant;

use super::account::UserCounts;
use super::caller::Caller;
use super::lines::Lines;

/// Users that are remembered without a session of theirs.
const USERS_MAX: usize = 256;

/// One user.
#[derive(Debug, Default)]
pub(super) struct User {
    /// Its thread, which waits for its pages and files.
    pub(super) tenant: Arc<Tenant>,
    pub(super) counts: Arc<UserCounts>,
    sessions: AtomicU32,
    lines: Lines,
}

/// All of them, by uid. All shards share one.
#[derive(Debug, Default)]
pub struct Users {
    by_uid: Mutex<BTreeMap<u32, Arc<User>>>,
    /// Of all of them.
    lines: Lines,
}

impl Users {
    /// A user, known from now on.
    pub(super) fn of(&self, uid: u32) -> Arc<User> {
        let mut users = self.by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= USERS_MAX {
            users.retain(|_, user| user.is_in_use());
        }
        Arc::clone(users.entry(uid).or_default())
    }

    /// Tells the log that somebody may not use an adapter, or none if it asked which there are.
    pub(super) fn tell_refused(&self, caller: &Caller, adapter: Option<&str>) {
        let (uid, now) = (caller.uid, Instant::now());
        if !self.of(uid).lines.allow(now) || !self.lines.allow(now) {
            return;
        }
        match adapter {
            Some(name) => tracing::warn!(
                "user {uid} may not use the adapter {name}: name the user with \
                 `vrdma adapter set {name} --user {uid}` or in the configuration"
            ),
            None => tracing::warn!(
                "user {uid} may not use any adapter: name the user with \
                 `vrdma adapter set NAME --user {uid}` or in the configuration"
            ),
        }
    }
}

impl User {
    fn is_in_use(&self) -> bool {
        self.sessions.load(Ordering::Relaxed) > 0 || Arc::strong_count(&self.counts) > 1
    }
}

/// A session's place among those of its user, for as long as it lives.
#[derive(Debug)]
pub(super) struct Place(Arc<User>);

impl Place {
    /// `None` if the user has `most` sessions.
    pub(super) fn take(user: Arc<User>, most: u32) -> Option<Self> {
        let sessions = user.sessions.fetch_add(1, Ordering::Relaxed);
        // Counted from here on, so that a refusal gives it back.
        let place = Self(user);
        (sessions < most).then_some(place)
    }

    pub(super) fn user(&self) -> &User {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether it is the user that the daemon runs as.
pub(super) fn is_ours(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_sessions_and_no_more() {
        let users = Users::default();
        let first = Place::take(users.of(1), 2);
        let second = Place::take(users.of(1), 2);
        assert!(first.is_some() && second.is_some());
        assert!(Place::take(users.of(1), 2).is_none());
        assert!(Place::take(users.of(2), 2).is_some(), "another user");
        drop(first);
        assert!(Place::take(users.of(1), 2).is_some());
    }

    #[test]
    fn users_without_sessions_are_forgotten_when_there_are_many() {
        let users = Users::default();
        let stays = Place::take(users.of(0), 1).unwrap();
        for uid in 1..=USERS_MAX as u32 {
            users.of(uid);
        }
        assert!(users.by_uid.lock().unwrap().len() < USERS_MAX);
        assert!(Arc::ptr_eq(&stays.0, &users.of(0)));
    }
}
