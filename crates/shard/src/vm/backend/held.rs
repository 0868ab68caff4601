//! Limit of what all clients together may make the daemon keep of devices that migrate.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use vrdma_vfio_user::Errno;

/// Most bytes of all clients together.
const MOST: usize = 1 << 30;

/// Bytes kept in this process.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// The bytes kept for one client.
#[derive(Debug)]
pub(super) struct Held {
    all: &'static AtomicUsize,
    bytes: usize,
}

impl Default for Held {
    fn default() -> Self {
        Self::of(&ALL)
    }
}

impl Held {
    fn of(all: &'static AtomicUsize) -> Self {
        Self { all, bytes: 0 }
    }

    /// Sets the number of bytes, if there is room for them.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), Errno> {
        let own = self.bytes;
        let resized = |all: usize| Some(all - own + bytes).filter(|all| *all <= MOST);
        // A client that gives up bytes makes room.
        let resized = self.all.fetch_update(Relaxed, Relaxed, resized);
        resized.map_err(|_| Errno::NOSPC)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TEST: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn clients_share_what_there_is() {
        let (mut one, mut two) = (Held::of(&TEST), Held::of(&TEST));
        one.resize(MOST - 10).unwrap();
        two.resize(10).unwrap();
        assert_eq!(two.resize(11), Err(Errno::NOSPC));
        one.resize(MOST - 11).unwrap();
        two.resize(11).unwrap();
        drop(one);
        two.resize(MOST).unwrap();
        two.resize(0).unwrap();
        assert_eq!(TEST.load(Relaxed), 0);
    }
}
