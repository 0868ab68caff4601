//! Users that have or had sessions, and the state kept for each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use vrdma_memory::{AllTenants, Tenant};

use super::caller::Caller;
use super::holdings::{Everybody, Holdings, UserCounts};
use super::limits::{SESSION_DESCRIPTORS, SESSION_MAPPINGS};
use super::quota::{Kind, Most};

/// Number of users at which those without a session are forgotten.
const USERS_MAX: usize = 256;

/// One user.
#[derive(Debug)]
pub(super) struct User {
    /// The user's thread, which waits for its pages and files.
    pub(super) tenant: Arc<Tenant>,
    pub(super) counts: Arc<UserCounts>,
}

/// Usage of one kind of resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Kind of resource.
    pub kind: Kind,
    /// Amount in use.
    pub used: u64,
    /// Quota.
    pub limit: u64,
}

/// The resources of one user, and its lines in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserUsage {
    /// Usage of each kind.
    pub resources: Vec<Usage>,
    /// Number of log lines that the user's clients caused and that were left out, since there were too many.
    pub log_lines_left_out: u64,
}

/// All users by uid. All shards share one.
#[derive(Debug, Default)]
pub struct Users {
    by_uid: Mutex<BTreeMap<u32, Arc<User>>>,
    everybody: Arc<Everybody>,
    waited: Arc<AllTenants>,
}

impl Users {
    /// Makes the users of a machine with few resources.
    #[cfg(test)]
    pub(super) fn on(machine: super::quota::Machine) -> Self {
        Self {
            everybody: Arc::new(Everybody::on(machine)),
            ..Self::default()
        }
    }

    /// Returns a user, which is known from now on.
    pub(super) fn of(&self, uid: u32) -> Arc<User> {
        let mut users = self.by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= USERS_MAX {
            users.retain(|_, user| user.is_in_use());
        }
        let user = users.entry(uid);
        Arc::clone(user.or_insert_with(|| Arc::new(self.new_user(uid))))
    }

    fn new_user(&self, uid: u32) -> User {
        User {
            tenant: Arc::new(Tenant::new(Arc::clone(&self.waited))),
            counts: Arc::new(UserCounts::new(uid, Arc::clone(&self.everybody))),
        }
    }

    /// The usage of each user, by uid.
    pub fn usage(&self) -> BTreeMap<u32, UserUsage> {
        let users = self.by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |user: &User| UserUsage {
            resources: self.usage_of(|kind, most| (user.counts.of(kind), most.user)),
            log_lines_left_out: user.counts.log_lines_left_out(),
        };
        users.iter().map(|(uid, user)| (*uid, of(user))).collect()
    }

    /// The usage of all users together.
    pub fn usage_of_all(&self) -> Vec<Usage> {
        self.usage_of(|kind, most| (self.everybody.of(kind), most.all))
    }

    fn usage_of(&self, of: impl Fn(Kind, Most) -> (u64, u64)) -> Vec<Usage> {
        let quotas = self.everybody.quotas();
        let usage = |kind| {
            let (used, limit) = of(kind, quotas.most(kind));
            Usage { kind, used, limit }
        };
        Kind::ALL.map(usage).into()
    }

    /// Logs that a user may not use an adapter, or may use none if it asked for the list.
    pub(super) fn tell_refused(&self, caller: &Caller, adapter: Option<&str>) {
        let uid = caller.uid;
        if !self.of(uid).counts.may_tell() {
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
    /// Whether to remember the user. A refused user is not forgotten: it would not be refused any more.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.counts) > 1 || self.tenant.is_refused()
    }
}

/// A session's place in its user's quota, for as long as it lives.
#[derive(Debug)]
pub(super) struct SessionSlot {
    user: Arc<User>,
    _holdings: Holdings,
}

impl SessionSlot {
    /// Takes a place; `None` if there is no room for one more.
    pub(super) fn take(user: Arc<User>) -> Option<Self> {
        let mut holdings = Holdings::new(Arc::clone(&user.counts));
        let costs = [
            (Kind::Session, 1),
            (Kind::Descriptor, SESSION_DESCRIPTORS),
            (Kind::Mapping, SESSION_MAPPINGS),
        ];
        if !costs
            .iter()
            .all(|(kind, count)| holdings.asks(*kind, *count))
        {
            return None;
        }
        for (kind, count) in costs {
            holdings.take(kind, count);
        }
        Some(Self {
            user,
            _holdings: holdings,
        })
    }

    pub(super) fn user(&self) -> &User {
        &self.user
    }
}

/// Whether the daemon runs as this user.
pub(super) fn is_ours(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::super::limits::SESSIONS_A_USER;
    use super::*;

    #[test]
    fn a_user_has_so_many_sessions_and_no_more() {
        let users = Users::default();
        let mut places = Vec::new();
        while let Some(place) = SessionSlot::take(users.of(1)) {
            places.push(place);
        }
        let descriptors = users.everybody.quotas().most(Kind::Descriptor).user;
        let most = (descriptors / SESSION_DESCRIPTORS).min(SESSIONS_A_USER.into());
        assert_eq!(places.len() as u64, most);
        assert!(SessionSlot::take(users.of(2)).is_some(), "another user");
        places.pop();
        assert!(SessionSlot::take(users.of(1)).is_some());
    }

    #[test]
    fn users_without_sessions_are_forgotten_when_there_are_many() {
        let users = Users::default();
        let stays = SessionSlot::take(users.of(0)).unwrap();
        for uid in 1..=USERS_MAX as u32 {
            users.of(uid);
        }
        assert!(users.by_uid.lock().unwrap().len() < USERS_MAX);
        assert!(Arc::ptr_eq(&stays.user, &users.of(0)));
    }
}
