//! Address vectors of datagrams, which an unprivileged guest process writes itself.

use vrdma_verbs::attr::Address;
use vrdma_verbs::object::PdId;
use vrdma_verbs::work::{Datagram, Status};
use vrdma_wire::{Gid, Qkey, Qpn};

use super::send::part;
use crate::abi::doorbell::HANDLE_MASK;
use crate::abi::work::{AddressVector, DatagramPart, SendHeader};

const PORT: u8 = 1;
/// 20 bits.
const FLOW_LABEL: u32 = 0x000f_ffff;

/// The destination of a datagram of a queue pair in `pd`. Whether the source GID is bound is for the
/// engine to say.
pub(super) fn decode(header: &SendHeader, pd: PdId) -> Result<Datagram, Status> {
    let part: DatagramPart = part(header);
    let qpn = Qpn::new(part.remote_qpn.get()).filter(|qpn| qpn.get() != 0);
    Ok(Datagram {
        qpn: qpn.ok_or(Status::LocQpOp)?,
        qkey: Qkey(part.remote_qkey.get()),
        address: address(&part.av, pd).ok_or(Status::LocQpOp)?,
    })
}

fn address(av: &AddressVector, pd: PdId) -> Option<Address> {
    let port_pd = av.port_pd.get();
    let port = (port_pd >> 24) as u8;
    let dgid = Gid(av.dgid);
    let ours = port == PORT && port_pd & HANDLE_MASK == pd.0;
    (ours && !dgid.is_zero() && !dgid.is_multicast()).then(|| {
        let word = av.sl_tclass_flowlabel.get();
        Address {
            dgid,
            sgid_index: av.gid_index,
            hop_limit: av.hop_limit,
            traffic_class: (word >> 20) as u8,
            flow_label: word & FLOW_LABEL,
            sl: 0,
            port,
            dmac: av.dmac,
        }
    })
}
