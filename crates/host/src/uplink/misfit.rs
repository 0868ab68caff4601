//! Packets that fit no uplink: logged once in a while, and shown in the adapter's state.

use std::fmt;
use std::time::Duration;

use vrdma_switch::PortId;
use vrdma_verbs::Time;

use super::Uplinks;
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;

/// How often the log reports packets of one adapter that do not fit, and how long its state does.
const COMPLAINTS_APART: Duration = Duration::from_secs(60);

/// A packet that is too long for its uplink, which has counted it.
pub(super) struct Misfit {
    pub(super) bytes: usize,
    pub(super) mtu: u32,
    pub(super) at: Time,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "packets of {} bytes do not fit the uplink's MTU of {}; raise that MTU, or connect with a smaller path MTU",
            self.bytes, self.mtu
        )
    }
}

impl<M: Member, P: Port> Host<M, P> {
    pub(super) fn note(&mut self, from: PortId, misfit: Misfit) {
        let known = self.uplinks.misfits.get(&from);
        if known.is_some_and(|known| misfit.at < known.at + COMPLAINTS_APART) {
            return;
        }
        if let Some(member) = self.member(from) {
            tracing::warn!(adapter = member.name(), "{misfit}");
        }
        self.uplinks.misfits.insert(from, misfit);
    }
}

impl<P> Uplinks<P> {
    /// Returns what is wrong with the packets of an adapter, if anything was lately.
    pub(super) fn fault(&self, port: PortId, now: Time) -> Option<String> {
        let misfit = self.misfits.get(&port)?;
        (now < misfit.at + COMPLAINTS_APART).then(|| misfit.to_string())
    }
}
