//! Journeys of guests: the steps of `vrdma migrate`, in its order, with time between them.

use vrdma_driver::{DeviceMember, Guest};
use vrdma_host::Host;
use vrdma_pvrdma::Context;
use vrdma_switch::PortId;
use vrdma_verbs::Time;

use super::Devices;
use crate::Journeys;
use crate::cluster::Endpoint;
use crate::port::SimPort;
use crate::violation::Violation;

/// The carrier of a host.
type Carrier = Host<DeviceMember, SimPort>;

/// One journey of a guest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Journey {
    pub(super) guest: usize,
    pub(super) to: usize,
    /// How long it is stopped.
    pub(super) pause_ns: u64,
    /// It goes on where it was, in the end.
    pub(super) aborts: bool,
}

/// A guest whose processors stand still, and whose device is frozen.
pub(super) struct Stop {
    pub(super) until: Time,
    journey: Journey,
    /// The context, as it goes to the other daemon.
    context: Vec<u8>,
}

impl Devices {
    /// Does what is due: stops guests, and lets them go on.
    pub(super) fn travel(&mut self) -> Result<(), Violation> {
        let now = self.cluster.now;
        while self.journeys.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, journey)) = self.journeys.pop_front() {
                self.stop(journey);
            }
        }
        for guest in 0..self.stops.len() {
            if self.stops[guest].as_ref().is_some_and(|it| it.until <= now)
                && let Some(stop) = self.stops[guest].take()
            {
                self.go_on(guest, &stop)?;
            }
        }
        Ok(())
    }

    fn stop(&mut self, journey: Journey) {
        let Journey { guest, to, .. } = journey;
        let here = self.cluster.places[guest].host;
        if self.stops[guest].is_some() || here == to {
            return;
        }
        let epoch = self.cluster.now.0;
        let frozen = self.guest(guest);
        frozen.device.advance_epoch(epoch);
        let context = Context {
            mac: frozen.mac(),
            records: frozen.device.freeze(),
            pages: Vec::new(),
        };
        self.tell(guest, Host::tell_paused);
        let until = self.cluster.now + std::time::Duration::from_nanos(journey.pause_ns);
        self.stops[guest] = Some(Stop {
            until,
            journey,
            context: context.encode(),
        });
        self.cluster
            .say(|| format!("a{guest} is frozen: {journey:?}"));
    }

    /// Tells the peers of a guest from its current host.
    fn tell(&mut self, guest: usize, what: fn(&mut Carrier, PortId, Time)) {
        let Endpoint { host, port, .. } = self.cluster.places[guest];
        let now = self.cluster.now;
        if self.kind != Journeys::LongUntold {
            what(self.cluster.carrier(host), port, now);
        }
    }

    fn go_on(&mut self, guest: usize, stop: &Stop) -> Result<(), Violation> {
        let now = self.cluster.now;
        if stop.journey.aborts {
            self.thaws += 1;
            self.guest(guest).device.advance_epoch(now.0);
            self.guest(guest).device.thaw(now);
            self.tell(guest, Host::tell_resumed);
            self.cluster.say(|| format!("a{guest} is thawed"));
            return Ok(());
        }
        self.moves += 1;
        let (from, to) = (self.cluster.places[guest].host, stop.journey.to);
        let port = self.cluster.places[guest].port;
        let context = Context::decode(&stop.context).map_err(Violation::from_error)?;
        // The guest at the source that waits for its return belongs to another QEMU.
        let config = *self.seen(guest).device.config();
        let fresh = Guest::new(config, self.clock.clone()).map_err(Violation::from_error)?;
        let mut gone = std::mem::replace(self.guest(guest), fresh);
        self.cluster.carrier(from).follow_gids(port, now);
        self.cluster.carrier(from).set_away(port, true, now);
        self.cluster.carrier(to).set_away(port, false, now);
        self.cluster.places[guest].host = to;
        let arrived = self.guest_at(to, guest).arrive(&mut gone, &context);
        arrived.map_err(Violation::from_error)?;
        self.guest_at(to, guest).device.advance_epoch(now.0);
        self.record_anew(from, guest);
        self.record_anew(to, guest);
        self.cluster.carrier(to).follow_gids(port, now);
        self.tell(guest, Host::tell_resumed);
        self.cluster
            .say(|| format!("a{guest} goes on at host {to}"));
        Ok(())
    }
}
