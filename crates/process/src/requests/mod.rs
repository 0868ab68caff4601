//! Requests of an open client: dispatch by code, and the handlers that create and destroy objects.

pub(crate) mod backing;
pub(crate) mod cq;
mod device;
mod life;
pub(crate) mod memory;
pub(crate) mod qp;
mod qp_attributes;
pub(crate) mod srq;

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use vrdma_provider::daemon::{Answer, Request};
use vrdma_provider::message::{Call, Code};
use vrdma_verbs::object::Owner;
use vrdma_verbs::{Error, Time};

use super::Process;
use super::context::Context;
use super::holdings::Holdings;
use super::quota::Kind;
use super::slabs::Part;

/// The result of a handler.
type Outcome<T> = Result<<T as Call>::Reply, Errno>;

/// The result of a handler, with descriptors.
type OutcomeWithFds<T> = Result<(<T as Call>::Reply, Vec<OwnedFd>), Errno>;

/// The client that asks, and the adapter that it asks.
struct Asker<'a> {
    process: &'a mut Process,
    owner: Owner,
    now: Time,
}

/// Carries out one request.
pub(super) fn serve(
    process: &mut Process,
    owner: Owner,
    code: Code,
    request: &mut Request,
    now: Time,
) -> Result<Answer, Errno> {
    let mut asker = Asker {
        process,
        owner,
        now,
    };
    let asker = &mut asker;
    match code {
        Code::ListAdapter | Code::FindAdapter | Code::Hello | Code::Reach | Code::Userfaultfd => {
            Err(Errno::OPNOTSUPP)
        }
        Code::QueryDevice => plain(asker, request, device::query),
        Code::QueryPort => plain(asker, request, device::query_port),
        Code::QueryGid => plain(asker, request, device::query_gid),
        Code::AllocPd => plain(asker, request, memory::alloc_pd),
        Code::DeallocPd => plain(asker, request, memory::dealloc_pd),
        Code::RegMr => {
            let fds = request.take_fds();
            plain(asker, request, |asker, body| {
                memory::register(asker, body, fds)
            })
        }
        Code::ReregMr => {
            let fds = request.take_fds();
            plain(asker, request, |asker, body| {
                memory::reregister(asker, body, fds)
            })
        }
        Code::DeregMr => plain(asker, request, memory::deregister),
        Code::AllocMw => plain(asker, request, memory::alloc_mw),
        Code::DeallocMw => plain(asker, request, memory::dealloc_mw),
        Code::CreateChannel => with_fds(asker, request, cq::create_channel),
        Code::DestroyChannel => plain(asker, request, cq::destroy_channel),
        Code::CreateCq => with_fds(asker, request, cq::create),
        Code::ResizeCq => with_fds(asker, request, cq::resize),
        Code::DestroyCq => plain(asker, request, cq::destroy),
        Code::CreateSrq => with_fds(asker, request, srq::create),
        Code::ModifySrq => plain(asker, request, srq::modify),
        Code::QuerySrq => plain(asker, request, srq::query),
        Code::DestroySrq => plain(asker, request, srq::destroy),
        Code::CreateQp => with_fds(asker, request, qp::create),
        Code::ModifyQp => plain(asker, request, qp::modify),
        Code::QueryQp => plain(asker, request, qp::query),
        Code::DestroyQp => plain(asker, request, qp::destroy),
        Code::AttachMcast => plain(asker, request, qp::attach),
        Code::DetachMcast => plain(asker, request, qp::detach),
    }
}

fn plain<T: Call>(
    asker: &mut Asker<'_>,
    request: &Request,
    handler: impl FnOnce(&mut Asker<'_>, T) -> Outcome<T>,
) -> Result<Answer, Errno> {
    let body = handler(asker, request.parse().ok_or(Errno::INVAL)?)?;
    Ok(Answer::new::<T>(&body, Vec::new()))
}

fn with_fds<T: Call>(
    asker: &mut Asker<'_>,
    request: &Request,
    handler: impl FnOnce(&mut Asker<'_>, T) -> OutcomeWithFds<T>,
) -> Result<Answer, Errno> {
    let (body, fds) = handler(asker, request.parse().ok_or(Errno::INVAL)?)?;
    Ok(Answer::new::<T>(&body, fds))
}

/// A kind, and how much of it.
pub(crate) type Cost = (Kind, u64);

impl Asker<'_> {
    /// Checks that an object is the asker's: objects of others do not exist for it.
    fn own(&self, owner: Option<Owner>) -> Result<(), Errno> {
        (owner == Some(self.owner))
            .then_some(())
            .ok_or(Errno::NOENT)
    }

    fn context(&mut self) -> Result<&mut Context, Errno> {
        self.process.context(self.owner).ok_or(Errno::NOENT)
    }

    fn holdings(&mut self) -> Result<&mut Holdings, Errno> {
        Ok(&mut self.context()?.holdings)
    }

    /// Takes memory for a queue, and its cost, until [`end_memory`](Self::end_memory).
    fn take_memory(&mut self, bytes: u32) -> Result<Part, Errno> {
        let bytes = bytes as usize;
        let slabs = &mut self.context()?.slabs;
        if let Some(part) = slabs.take(bytes) {
            return Ok(part);
        }
        let cost = slabs.cost_of_next(bytes);
        self.afford(&cost)?;
        let part = self.context()?.slabs.grow(bytes)?;
        self.take(&cost)?;
        Ok(part)
    }

    /// Passes on the object that was made in that memory; if it was not made, ends the memory.
    fn or_end_memory<T>(&mut self, made: Result<T, Errno>, memory: &Part) -> Result<T, Errno> {
        if made.is_err() {
            self.end_memory(memory)?;
        }
        made
    }

    /// Ends the memory of a queue that has ended.
    fn end_memory(&mut self, memory: &Part) -> Result<(), Errno> {
        let given_back = self.context()?.slabs.end(memory);
        given_back.map_or(Ok(()), |cost| self.give(&cost))
    }

    /// Refuses costs that exceed a quota.
    fn afford(&mut self, costs: &[Cost]) -> Result<(), Errno> {
        let holdings = self.holdings()?;
        let mut costs = costs.iter();
        let fits = costs.all(|(kind, count)| holdings.asks(*kind, *count));
        fits.then_some(()).ok_or(Errno::NOMEM)
    }

    fn take(&mut self, costs: &[Cost]) -> Result<(), Errno> {
        let holdings = self.holdings()?;
        costs
            .iter()
            .for_each(|(kind, count)| holdings.take(*kind, *count));
        Ok(())
    }

    fn give(&mut self, costs: &[Cost]) -> Result<(), Errno> {
        let holdings = self.holdings()?;
        costs
            .iter()
            .for_each(|(kind, count)| holdings.give(*kind, *count));
        Ok(())
    }
}

/// The errno of verbs for an error of the engine.
fn errno(error: Error) -> Errno {
    match error {
        Error::InvalidHandle => Errno::NOENT,
        Error::InUse => Errno::BUSY,
        Error::Exhausted => Errno::NOMEM,
        Error::InvalidAttribute
        | Error::InvalidTransition
        | Error::InvalidState
        | Error::Leaving
        | Error::WrongOwner => Errno::INVAL,
    }
}
