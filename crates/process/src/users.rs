//! Users that have or had clients, and what is kept of each.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use vrdma_memory::Tenant;

use super::account::UserCounts;

/// Users that are remembered without a client of theirs.
const USERS_MAX: usize = 256;

/// One user.
pub(super) struct User {
    /// Who waits for its pages and files.
    pub(super) tenant: Arc<Tenant>,
    pub(super) counts: UserCounts,
}

/// All of them, by uid.
#[derive(Default)]
pub(super) struct Users {
    by_uid: BTreeMap<u32, User>,
}

impl Users {
    pub(super) fn of(&mut self, uid: u32) -> &User {
        if self.by_uid.len() >= USERS_MAX {
            self.by_uid
                .retain(|_, user| Rc::strong_count(&user.counts) > 1);
        }
        self.by_uid.entry(uid).or_insert_with(|| User {
            tenant: Arc::default(),
            counts: UserCounts::default(),
        })
    }
}

/// Whether it is the user that the daemon runs as.
pub(super) fn is_ours(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
}
