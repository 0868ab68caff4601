//! The GIDs that a port has bound, and how often each.
//!
//! A guest's table holds the GID of one address twice, once for RoCE v1 and once for v2, and unbinding one entry
//! must keep the other. A sorted vector, since most ports have one or two: a tree's smallest node has room for
//! eleven.

use alloc::vec::Vec;

use vrdma_wire::Gid;

struct Binding {
    gid: Gid,
    times: u32,
}

/// The bindings, in the order of the GIDs; see the module.
#[derive(Default)]
pub(super) struct Bindings(Vec<Binding>);

impl Bindings {
    /// Returns the number of bindings; a GID counts as often as it is bound.
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|bound| bound.times as usize).sum()
    }

    pub(super) fn contains(&self, gid: Gid) -> bool {
        self.find(gid).is_ok()
    }

    /// Binds a GID once more.
    pub(super) fn bind(&mut self, gid: Gid) {
        match self.find(gid) {
            Ok(at) => self.0[at].times += 1,
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, Binding { gid, times: 1 });
            }
        }
    }

    /// Takes one binding back; whether it was the GID's last one.
    pub(super) fn unbind(&mut self, gid: Gid) -> bool {
        let Ok(at) = self.find(gid) else { return false };
        self.0[at].times -= 1;
        let is_last = self.0[at].times == 0;
        if is_last {
            self.0.remove(at);
        }
        is_last
    }

    /// Takes all bindings of a GID back.
    pub(super) fn remove(&mut self, gid: Gid) {
        if let Ok(at) = self.find(gid) {
            self.0.remove(at);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Gid> + '_ {
        self.0.iter().map(|bound| bound.gid)
    }

    fn find(&self, gid: Gid) -> Result<usize, usize> {
        self.0.binary_search_by_key(&gid, |bound| bound.gid)
    }
}
