//! A guest as a member of the carrier, and the missing uplink of its host.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use vrdma_adapter::GidChange;
use vrdma_host::{Batch, Doorbells, Member, Port, Received, Segment, Train};
use vrdma_memory::{Region, Space, View};
use vrdma_verbs::packet::Reply;
use vrdma_verbs::unit::{Request, Response, Route};
use vrdma_verbs::{Paths, Source, Time};
use vrdma_wire::{Gid, Mtu, Packet};

use crate::guest::Guest;

/// A unit under way between two devices.
#[derive(Clone, Copy, Debug)]
pub enum Unit<'a> {
    /// A request, to the responder.
    Request(&'a Request<Region>),
    /// A response, to the requester.
    Response(&'a Response<Region>),
}

/// Decides which units are lost.
pub(crate) type Loses = Rc<RefCell<dyn FnMut(Unit<'_>) -> bool>>;

/// A guest and its device, as the daemon's carrier sees them.
pub struct DeviceMember {
    /// The guest.
    pub guest: Guest,
    pub(crate) loses: Option<Loses>,
    /// Number of requests that the device may still send, if limited.
    pub(crate) requests_left: Option<u32>,
}

impl DeviceMember {
    /// Makes a member whose units all arrive.
    pub fn new(guest: Guest) -> Self {
        Self {
            guest,
            loses: None,
            requests_left: None,
        }
    }

    fn loses(&self, unit: Unit<'_>) -> bool {
        let loses = self.loses.as_ref();
        loses.is_some_and(|loses| (loses.borrow_mut())(unit))
    }
}

impl Member for DeviceMember {
    type Region = Region;
    type Memory = Arc<Space>;
    type View<'a> = View<'a>;

    fn name(&self) -> &str {
        "a guest"
    }

    fn memory(&self) -> Arc<Space> {
        Arc::clone(self.guest.dma())
    }

    fn view(memory: &Arc<Space>) -> View<'_> {
        memory.view()
    }

    /// Does nothing: tests change guest memory between turns, and report it themselves.
    fn renew_memory(&mut self, _: Time) {}

    fn poll(&mut self, memory: &View<'_>, now: Time) -> bool {
        self.guest.device.poll(memory, now)
    }

    fn next_request(
        &mut self,
        memory: &View<'_>,
        now: Time,
        paths: &mut impl Paths,
    ) -> Option<Request<Region>> {
        let device = &mut self.guest.device;
        let Some(left) = &mut self.requests_left else {
            return device.next_request(memory, now, paths);
        };
        if *left == 0 {
            return None;
        }
        let request = device.next_request(memory, now, paths);
        *left -= u32::from(request.is_some());
        request
    }

    fn deliver_in_row(
        &mut self,
        memory: &View<'_>,
        request: &Request<Region>,
        source: Source<'_, View<'_>>,
        now: Time,
        unheard: &mut Option<Response<Region>>,
    ) -> Option<Response<Region>> {
        if self.loses(Unit::Request(request)) {
            return None;
        }
        let device = &mut self.guest.device;
        device.deliver_in_row(memory, request, source, now, unheard)
    }

    fn end_row(&mut self) {
        self.guest.device.end_row();
    }

    fn respond(
        &mut self,
        memory: &View<'_>,
        response: &Response<Region>,
        source: Source<'_, View<'_>>,
        now: Time,
    ) {
        if !self.loses(Unit::Response(response)) {
            self.guest.device.respond(memory, response, source, now);
        }
    }

    /// Returns nothing: the device has no multicast.
    fn fan_out(&self, _: &Request<Region>) -> Vec<Request<Region>> {
        Vec::new()
    }

    fn receive(&mut self, memory: &View<'_>, packet: &Packet<'_>, now: Time) {
        self.guest.device.receive(memory, packet, now);
    }

    fn end_train(&mut self, now: Time) {
        let space = self.memory();
        self.guest.device.end_train(&space.view(), now);
    }

    fn next_reply(&mut self, now: Time, paths: &mut impl Paths) -> Option<Reply<Region>> {
        self.guest.device.next_reply(now, paths)
    }

    fn path_has_room(&mut self) {
        self.guest.device.path_has_room();
    }

    fn peers(&self) -> Vec<Route> {
        self.guest.device.peers()
    }

    fn has_peer(&self, peer: Gid) -> bool {
        self.guest.device.has_peer(peer)
    }

    fn pause_peer(&mut self, peer: Gid) {
        self.guest.device.pause_peer(peer);
    }

    fn resume_peer(&mut self, peer: Gid) {
        self.guest.device.resume_peer(peer);
    }

    fn is_still(&self) -> bool {
        self.guest.device.is_frozen()
    }

    fn epoch(&self) -> u64 {
        self.guest.device.epoch()
    }

    /// Collects interrupts; the guest's handlers run when it is scheduled.
    fn publish(&mut self, _: Time) {
        self.guest.take_interrupts();
    }

    fn is_runnable(&self) -> bool {
        self.guest.device.activity().runnable
    }

    fn doorbells(&self) -> Doorbells {
        match self.guest.device.activity().live_contexts {
            0 => Doorbells::Wake,
            _ => Doorbells::Silent,
        }
    }

    fn sleep(&mut self) -> bool {
        true
    }

    fn awake(&mut self) {}

    fn next_deadline(&self) -> Option<Time> {
        self.guest.device.next_deadline()
    }

    fn take_gid_change(&mut self) -> Option<GidChange> {
        self.guest.device.take_gid_change()
    }

    fn take_groups(&mut self) -> Option<Vec<Gid>> {
        None
    }

    fn set_mtu(&mut self, mtu: Mtu) {
        self.guest.device.set_mtu(mtu);
    }

    fn has_gsi(&self) -> bool {
        true
    }
}

/// The uplink type of a host without uplinks.
#[derive(Clone, Copy, Debug)]
pub enum NoUplink {}

impl Port for NoUplink {
    fn mtu(&self) -> u32 {
        match *self {}
    }

    fn send(&mut self, _: Segment, _: &[u8]) {
        match *self {}
    }

    fn send_in_place(&mut self, _: Train<'_>, _: &mut dyn FnMut(&mut [&mut [u8]]) -> bool) -> bool {
        match *self {}
    }

    fn waiting(&self) -> usize {
        match *self {}
    }

    fn flush(&mut self) -> bool {
        match *self {}
    }

    fn sent_frames(&self) -> u64 {
        match *self {}
    }

    fn receive(&mut self, _: &mut impl FnMut(Received<'_>) -> bool) -> Batch {
        match *self {}
    }

    fn next_deadline(&self) -> Option<Time> {
        match *self {}
    }

    fn release(&mut self) {
        match *self {}
    }

    fn refresh(&mut self) {
        match *self {}
    }
}
