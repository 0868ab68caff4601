//! How large packets of an adapter may be so that they fit the uplinks of its group.

use vrdma_wire::Mtu;

use super::Shard;
use super::adapter::Adapter;

/// What stands around the payload of a packet in an IP packet: IPv6, UDP and BTH headers, RETH with
/// immediate data (the most that comes with payload), ICRC.
const HEADERS: u32 = 40 + 8 + 12 + 20 + 4;

/// The largest path MTU whose packets fit into IP packets of this length.
fn fitting(ip_bytes: u32) -> Mtu {
    let codes = (1..=5).rev().filter_map(Mtu::from_code);
    let mut fitting = codes.filter(|mtu| mtu.bytes() + HEADERS <= ip_bytes);
    fitting.next().unwrap_or(Mtu::B256)
}

impl Shard {
    /// Tells every adapter what its port offers. Uplinks that come, go or change their MTU change
    /// it; an adapter whose messages stay on the host has the largest.
    pub(super) fn measure(&mut self) {
        for adapter in self.adapters.iter_mut().flatten() {
            let ip_bytes = self.wires.narrowest(adapter.spec().group);
            let mtu = ip_bytes.map_or(Mtu::B4096, fitting);
            adapter.set_mtu(mtu);
            self.cm.set_mtu(adapter.spec().port, mtu);
        }
    }
}

impl Adapter {
    fn set_mtu(&mut self, mtu: Mtu) {
        match self {
            Self::Vm(vm) => vm.device().set_mtu(mtu),
            Self::Process { process, .. } => process.set_mtu(mtu),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_and_headers_fit_the_wire() {
        let fitted = [576, 1450, 1500, 4096, 4180, 9000, 100].map(fitting);
        let expected = [
            Mtu::B256,
            Mtu::B1024,
            Mtu::B1024,
            Mtu::B2048,
            Mtu::B4096,
            Mtu::B4096,
            Mtu::B256,
        ];
        assert_eq!(fitted, expected);
    }
}
