//! Requests of one client: dispatch by type, and the cleanup after a client or an adapter.

use rustix::io::Errno;
use vrdma_provider::cm::{
    Accept, Bind, Connect, CreateChannel, CreateId, DestroyChannel, DestroyId, Disconnect,
    Established, EventKind, GetEvent, IdReply, InitQp, Join, Leave, Listen, Migrate, Offer, Reject,
    ResolveAddress, ResolveRoute, SetOption,
};
use vrdma_provider::daemon::{Answer, Request};
use vrdma_provider::message::{Call, Done};
use vrdma_switch::PortId;

use super::handler::Handler;

impl Handler<'_> {
    /// Carries out a request and returns its answer.
    pub(super) fn decide(&mut self, request: &Request) -> Result<Answer, Errno> {
        let done = |()| Done {};
        match request.code() {
            CreateChannel::CODE => self.create_channel(),
            DestroyChannel::CODE => self.work(request, |d, it: &DestroyChannel| {
                d.client.remove_channel(it.channel).map(done)
            }),
            CreateId::CODE => self.work(request, Self::create),
            DestroyId::CODE => self.work(request, |d, it| d.destroy(it).map(done)),
            Bind::CODE => self.work(request, Self::bind),
            ResolveAddress::CODE => self.work(request, |d, it| d.resolve_address(it).map(done)),
            ResolveRoute::CODE => self.work(request, |d, it| d.resolve_route(it).map(done)),
            Listen::CODE => self.work(request, Self::listen),
            Connect::CODE => self.work(request, Self::connect),
            Accept::CODE => self.work(request, |d, it| d.accept(it).map(done)),
            Reject::CODE => self.work(request, |d, it| d.reject(it).map(done)),
            Disconnect::CODE => self.work(request, |d, it| d.disconnect(it).map(done)),
            Established::CODE => self.work(request, |d, it| d.established(it).map(done)),
            InitQp::CODE => self.work(request, Self::init_qp),
            GetEvent::CODE => self.work(request, Self::event),
            Migrate::CODE => self.work(request, |d, it| d.migrate(it).map(done)),
            Join::CODE => self.work(request, Self::join),
            Leave::CODE => self.work(request, |d, it| d.leave(it).map(done)),
            SetOption::CODE => self.work(request, |d, it| d.set_option(it).map(done)),
            Offer::CODE => self.work(request, |d, it| d.offer(it).map(done)),
            _ => Err(Errno::NOSYS),
        }
    }

    fn work<T: Call>(
        &mut self,
        request: &Request,
        work: impl FnOnce(&mut Self, &T) -> Result<T::Reply, Errno>,
    ) -> Result<Answer, Errno> {
        let body = request.parse::<T>().ok_or(Errno::INVAL)?;
        let reply = work(self, &body)?;
        Ok(Answer::new::<T>(&reply, Vec::new()))
    }

    fn create_channel(&mut self) -> Result<Answer, Errno> {
        let (id, pipe) = self.client.add_channel()?;
        Ok(Answer::new::<CreateChannel>(&IdReply { id }, vec![pipe]))
    }

    /// Destroys everything of a client that is gone.
    pub(super) fn clear(&mut self) {
        let ids: Vec<u64> = self.client.identifiers.keys().copied().collect();
        for id in ids {
            // The listener may have destroyed this identifier already.
            let _gone = self.destroy(&DestroyId { id });
        }
    }

    /// Cleans up an identifier that used an adapter that is gone.
    pub(super) fn forget_adapter(&mut self, id: u64, port: PortId) {
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        identifier.forget_adapter(port);
        if identifier.adapter == Some(port) {
            self.tell(id, EventKind::DeviceRemoval);
        }
    }
}
