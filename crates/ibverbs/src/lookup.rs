//! Lookup of the program's objects by the numbers in events.
//!
//! The daemon names an object by the cookie that its creation gave. Cookies are never used twice,
//! so an event of an object that is gone finds nothing, and pointers never travel.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::cq::CompletionQueue;
use crate::qp::QueuePair;
use crate::srq::SharedQueue;

/// An object that events can name.
#[derive(Clone, Copy)]
pub(crate) enum Object {
    Cq(*const CompletionQueue),
    Qp(*const QueuePair),
    Srq(*const SharedQueue),
}

/// All objects of a device, by cookie.
pub(crate) struct Lookup {
    next: AtomicU64,
    objects: Mutex<HashMap<u64, Object>>,
}

// SAFETY: the pointers are to objects that may be used from any thread; an entry is removed before
// its object is freed, and used only under the lock.
unsafe impl Send for Lookup {}
// SAFETY: as above.
unsafe impl Sync for Lookup {}

impl Lookup {
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicU64::new(1),
            objects: Mutex::new(HashMap::new()),
        }
    }

    /// Returns a cookie for an object that is going to be made.
    pub(crate) fn cookie(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn insert(&self, cookie: u64, object: Object) {
        self.objects.lock().insert(cookie, object);
    }

    pub(crate) fn remove(&self, cookie: u64) {
        self.objects.lock().remove(&cookie);
    }

    /// Returns what `found` finds first among all objects, none of which can be destroyed meanwhile.
    pub(crate) fn find<R>(&self, found: impl FnMut(Object) -> Option<R>) -> Option<R> {
        let objects = self.objects.lock();
        objects.values().copied().find_map(found)
    }

    /// Lets `found` see the object while it cannot be destroyed.
    pub(crate) fn with<R>(&self, cookie: u64, found: impl FnOnce(Object) -> R) -> Option<R> {
        let objects = self.objects.lock();
        objects.get(&cookie).map(|object| found(*object))
    }
}
