//! The Ethernet thread's question to the shards' switch: does an address belong to a port that learns its own?

use std::sync::Arc;

use vrdma_switch::{Claim, PortId};
use vrdma_wire::Gid;

use crate::shared::Shared;

/// One port's answers. They are kept while the epoch stands, so that frames take no lock.
pub struct Learner {
    shared: Arc<Shared>,
    port: PortId,
    epoch: u64,
    /// An IPv4 address and an IPv6 address.
    own: [Option<Gid>; 2],
}

impl Learner {
    /// Makes the learner of a port that the switch [keeps](crate::Host::keep) to the addresses that it learns.
    pub fn new(shared: Arc<Shared>, port: PortId) -> Self {
        Self {
            epoch: shared.epoch(),
            shared,
            port,
            own: [None; 2],
        }
    }
}

impl Claim for Learner {
    fn claim(&mut self, gid: Gid) -> bool {
        let epoch = self.shared.epoch();
        if epoch != self.epoch {
            (self.epoch, self.own) = (epoch, [None; 2]);
        }
        let own = &mut self.own[usize::from(gid.to_ipv4().is_none())];
        if own.is_none() {
            *own = self.shared.learn(self.port, gid);
        }
        *own == Some(gid)
    }
}

#[cfg(test)]
mod tests {
    use vrdma_switch::{GroupId, Kept};
    use vrdma_wire::Mac;

    use super::*;

    const ANN: PortId = PortId(1);
    const BOB: PortId = PortId(2);

    fn v4(last: u8) -> Gid {
        Gid::from_ipv4([10, 0, 0, last].into())
    }

    fn learner() -> Learner {
        let shared = Shared::default();
        for port in [ANN, BOB] {
            let mac = Mac([2, 0, 0, 0, 0, port.0 as u8]);
            let attached = shared.change(|fabric| fabric.attach(port, GroupId(0), mac));
            attached.unwrap();
        }
        shared.change(|fabric| fabric.keep(ANN, &Kept::Learned));
        Learner::new(Arc::new(shared), ANN)
    }

    #[test]
    fn it_answers_as_the_switch_does() {
        let mut ann = learner();
        let fabric = Arc::clone(&ann.shared);
        fabric.change(|fabric| fabric.bind_gid(BOB, v4(7))).unwrap();
        assert!(!ann.claim(v4(7)), "Bob has it");
        assert!(ann.claim(v4(5)) && !ann.claim(v4(6)) && ann.claim(v4(5)));
        let six = Gid([0xfd; 16]);
        fabric.change(|fabric| fabric.bind_gid(ANN, six)).unwrap();
        assert!(!ann.claim(Gid([0xfc; 16])) && ann.claim(six));
        fabric.change(|fabric| fabric.forget_learned(ANN));
        assert!(ann.claim(v4(6)) && !ann.claim(v4(5)), "of a new guest");
        fabric.change(|fabric| fabric.keep(ANN, &Kept::Any));
        assert!(!ann.claim(v4(6)), "it learns no more");
    }

    #[test]
    fn what_was_answered_takes_no_lock() {
        let mut ann = learner();
        assert!(ann.claim(v4(5)) && ann.claim(v4(5)));
        let shared = Arc::clone(&ann.shared);
        shared.change(|_| {
            assert!(ann.claim(v4(5)) && !ann.claim(v4(6)));
        });
    }
}
