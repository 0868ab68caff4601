//! A queue pair: its two rings and what its requests may do.

use vrdma_adapter::RunState;
use vrdma_memory::{PageList, Region, View};
use vrdma_verbs::object::Owner;
use vrdma_verbs::work::{RecvWr, SendWr};

use crate::abi::request::CreateQp;
use crate::abi::response::QpSizes;
use crate::decode::{receive, send};
use crate::queue::RingError;
use crate::queue::work::WorkRing;
use crate::quota::Charge;

#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) rules: send::SendRules,
    pub(crate) sizes: QpSizes,
    pub(crate) pages: PageList,
    pub(crate) send: WorkRing,
    /// `None` with a shared receive queue.
    pub(crate) recv: Option<WorkRing>,
    /// Its place in the machine that runs it.
    pub(crate) run: RunState,
    /// Whether its rings are unusable: they are not touched any more.
    pub(crate) dead: bool,
    /// The request that made it.
    pub(crate) request: CreateQp,
    pub(crate) _charge: Charge,
}

impl Qp {
    pub(crate) fn owner(&self) -> Owner {
        self.rules.owner
    }

    /// Restarts the rings: the guest zeroes the indices when the command that resets returns.
    pub(crate) fn restart(&mut self) {
        self.send.restart();
        self.recv.iter_mut().for_each(WorkRing::restart);
        self.run.restart();
        self.dead = false;
    }

    /// Whether the send ring holds requests that are not fetched.
    pub(crate) fn has_sends(&mut self, memory: &View<'_>) -> Result<bool, RingError> {
        Ok(!self.dead && self.send.available(memory, &self.pages)? > 0)
    }

    /// Copies the next send request, if there is one.
    #[inline]
    pub(crate) fn fetch_send(
        &mut self,
        memory: &View<'_>,
    ) -> Result<Option<SendWr<Region>>, RingError> {
        if !self.has_sends(memory)? {
            return Ok(None);
        }
        let at = self.send.fetch(&self.pages)?;
        send::decode(memory, at, self.send.stride(), &self.rules).map(Some)
    }

    /// Checks the guest's index of the receive ring.
    pub(crate) fn check_receives(&mut self, memory: &View<'_>) -> Result<(), RingError> {
        match self.recv.as_mut().filter(|_| !self.dead) {
            Some(recv) => recv.refresh(memory, &self.pages).map(drop),
            None => Ok(()),
        }
    }

    /// Copies the next receive of its own ring, if there is one.
    pub(crate) fn fetch_recv(&mut self, memory: &View<'_>) -> Result<Option<RecvWr>, RingError> {
        let Some(recv) = self.recv.as_mut().filter(|_| !self.dead) else {
            return Ok(None);
        };
        if recv.available(memory, &self.pages)? == 0 {
            return Ok(None);
        }
        let at = recv.fetch(&self.pages)?;
        let max_sge = self.sizes.max_recv_sge.get();
        receive::decode(memory, at, recv.stride(), max_sge).map(Some)
    }

    /// Lets the guest reuse the slots of requests that are done.
    pub(crate) fn show_released(&mut self, memory: &View<'_>) -> Result<(), RingError> {
        if self.dead {
            return Ok(());
        }
        self.send.show_released(memory, &self.pages)?;
        match &mut self.recv {
            Some(recv) => recv.show_released(memory, &self.pages),
            None => Ok(()),
        }
    }
}
