//! Bounds the daemon's memory that a guest may use for page addresses.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Pages that page lists of one device may name in sum. Each costs eight bytes.
pub(crate) struct Quota {
    left: Arc<AtomicU64>,
}

/// Pages taken from a quota; they go back when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    quota: Arc<AtomicU64>,
    pages: u64,
}

impl Charge {
    /// Number of pages.
    pub(crate) fn pages(&self) -> u32 {
        self.pages as u32
    }
}

impl Quota {
    pub(crate) fn new(pages: u64) -> Self {
        Self {
            left: Arc::new(AtomicU64::new(pages)),
        }
    }

    /// Takes pages from the quota; `None` when it is used up.
    pub(crate) fn take(&self, pages: u32) -> Option<Charge> {
        let pages = u64::from(pages);
        let subtract = |left: u64| left.checked_sub(pages);
        self.left.fetch_update(Relaxed, Relaxed, subtract).ok()?;
        Some(Charge {
            quota: Arc::clone(&self.left),
            pages,
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.quota.fetch_add(self.pages, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_comes_back_when_dropped() {
        let quota = Quota::new(10);
        let charge = quota.take(7).unwrap();
        assert!(quota.take(4).is_none());
        let rest = quota.take(3).unwrap();
        drop(charge);
        assert!(quota.take(8).is_none());
        assert!(quota.take(7).is_some());
        drop(rest);
        assert!(quota.take(10).is_some());
    }
}
