//! Datagrams to many: a copy for every queue pair of this host that listens, and one for the wire.

use vrdma_memory::{Region, View};
use vrdma_switch::PortId;
use vrdma_verbs::Time;
use vrdma_verbs::unit::Request;

use super::Shard;
use super::sessions::OfProcesses;
use vrdma_process::Adapters;

impl Shard {
    pub(super) fn multiply(
        &mut self,
        from: usize,
        memory: &View<'_>,
        request: &Request<Region>,
        now: Time,
    ) {
        let (source, route) = (PortId(from as u32), &request.route);
        let Ok(ports) = self.fabric.hear(source, route.sgid, route.dgid) else {
            return;
        };
        let ports: Vec<_> = ports.map(|port| port.0 as usize).collect();
        for to in ports {
            let listener = self.adapters.get(to).and_then(Option::as_ref);
            let copies = listener.map(|adapter| adapter.fan_out(request));
            for copy in copies.unwrap_or_default() {
                self.pass((from, to), memory, &copy, now);
            }
        }
        if self.fabric.leaves(source) {
            self.transmit(source, memory, request, now);
        }
    }

    /// Tells the fabric what an adapter of processes listens to, if that has changed.
    pub(super) fn follow_groups(&mut self, port: PortId) {
        let mut processes = OfProcesses(&mut self.adapters);
        let process = processes.at(port);
        let Some(groups) = process.and_then(|process| process.take_groups()) else {
            return;
        };
        self.tell_groups(port, &groups);
        if let Err(error) = self.fabric.listen(port, groups) {
            tracing::warn!("multicast does not reach an adapter: {error}");
        }
    }
}
