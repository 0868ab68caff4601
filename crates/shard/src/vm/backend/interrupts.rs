//! Interrupts of a device, and what happens to a client that makes its shard wait to signal one.
//!
//! Such a client loses its connection, and clients of that VM are refused for a while: otherwise the shard would do
//! little but wait for clients that come again.

use std::time::Duration;

use vrdma_verbs::Time;

use super::{Backend, VECTORS};

/// How long: with it, the shard's wait for one client, some 10 ms at most, is 2 in a thousand of the time.
const REFUSED: Duration = Duration::from_secs(5);

/// The time from which clients are let in again.
#[derive(Debug, Default)]
pub(super) struct Refusal(Option<Time>);

impl Refusal {
    fn begin(&mut self, now: Time) {
        self.0 = Some(now + REFUSED);
    }

    fn ends_after(&self, now: Time) -> bool {
        self.0.is_some_and(|end| now < end)
    }
}

impl Backend {
    pub(in crate::vm) fn interrupt(&mut self) {
        let raised = self.device.take_interrupts();
        if let Some(ended) = self.device.take_ended() {
            self.disposal.free(ended);
        }
        (0..u32::from(VECTORS))
            .filter(|vector| raised >> vector & 1 == 1)
            .for_each(|vector| self.irqs.raise(vector));
    }

    /// Whether its client made the shard wait for an interrupt; told once.
    pub(in crate::vm) fn take_blocked(&mut self) -> bool {
        let is_new = self.irqs.blocks() && !std::mem::replace(&mut self.is_blocked, true);
        if is_new {
            self.refusal.begin(self.clock.now());
            let seconds = REFUSED.as_secs();
            self.tell(&format_args!(
                "QEMU made an interrupt of its adapter wait, by an eventfd that is full and blocks: it is disconnected, and \
                 refused for {seconds} s"
            ));
        }
        is_new
    }

    /// Whether clients are refused because of that.
    pub(in crate::vm) fn refuses(&self) -> bool {
        self.refusal.ends_after(self.clock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_ends() {
        let mut refusal = Refusal::default();
        assert!(!refusal.ends_after(Time(0)));
        refusal.begin(Time(7));
        assert!(refusal.ends_after(Time(6) + REFUSED));
        assert!(!refusal.ends_after(Time(7) + REFUSED));
    }
}
