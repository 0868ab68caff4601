//! Address vectors of datagrams, which an unprivileged guest process writes itself.

use vrdma_verbs::attr::Address;
use vrdma_verbs::object::PdId;
use vrdma_verbs::work::{Datagram, Status};
use vrdma_wire::{Gid, Qkey, Qpn};

use super::send::part;
use crate::abi::doorbell::HANDLE_MASK;
use crate::abi::work::{AddressVector, DatagramPart, SendHeader};

/// Mask of the 20-bit flow label.
const FLOW_LABEL: u32 = 0x000f_ffff;

/// Decodes the destination of a datagram of a queue pair in `pd`. The engine checks port, addresses and the source GID.
pub(super) fn decode(header: &SendHeader, pd: PdId) -> Result<Datagram, Status> {
    let part: DatagramPart = part(header);
    let named_pd = PdId(part.av.port_pd.get() & HANDLE_MASK);
    let qpn = Qpn::new(part.remote_qpn.get()).filter(|_| named_pd == pd);
    Ok(Datagram {
        qpn: qpn.ok_or(Status::LocQpOp)?,
        qkey: Qkey(part.remote_qkey.get()),
        address: address(&part.av),
    })
}

fn address(av: &AddressVector) -> Address {
    let word = av.sl_tclass_flowlabel.get();
    Address {
        dgid: Gid(av.dgid),
        sgid_index: av.gid_index,
        hop_limit: av.hop_limit,
        traffic_class: (word >> 20) as u8,
        flow_label: word & FLOW_LABEL,
        sl: 0,
        port: (av.port_pd.get() >> 24) as u8,
        dmac: av.dmac,
    }
}
