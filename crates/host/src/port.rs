//! What the carrier needs of an uplink.

use vrdma_verbs::Time;
use vrdma_wire::Mac;

/// The broadcast domain that a frame belongs to, as an uplink tells it apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Segment {
    /// No 802.1Q tag.
    Untagged,
    /// A VLAN.
    Vlan(u16),
    /// A VXLAN network of a tunnel.
    Vni(u32),
}

/// Marks of a port group's frames outside the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// 802.1Q tag on raw uplinks; `None` is untagged.
    pub vlan: Option<u16>,
    /// VXLAN network in tunnels; a group without one stays out of tunnels.
    pub vni: Option<u32>,
}

impl Marks {
    /// Returns the segment on an uplink of that kind; `None` if the group must not leave by it.
    pub(crate) fn on(self, is_tunnel: bool) -> Option<Segment> {
        if is_tunnel {
            return self.vni.map(Segment::Vni);
        }
        Some(self.vlan.map_or(Segment::Untagged, Segment::Vlan))
    }
}

/// A frame that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received<'a> {
    /// The segment that it belongs to.
    pub segment: Segment,
    /// Destination MAC to payload.
    pub frame: &'a [u8],
}

/// How much one batch of arrivals has taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batch {
    /// Nothing waited.
    Empty,
    /// Everything that waited.
    All,
    /// As much as one batch may have; more may wait.
    Full,
}

impl Batch {
    /// Returns the kind of a batch with so many arrivals.
    pub fn of(arrivals: usize, has_more: bool) -> Self {
        match (arrivals, has_more) {
            (0, _) => Self::Empty,
            (_, false) => Self::All,
            (_, true) => Self::Full,
        }
    }
}

/// Several frames for one station, written directly into the uplink's send buffer.
#[derive(Clone, Copy, Debug)]
pub struct Train<'a> {
    /// The segment that they belong to.
    pub segment: Segment,
    /// The destination station.
    pub to: Mac,
    /// Length of each frame in bytes.
    pub lengths: &'a [usize],
}

/// The carrier's end of an uplink.
pub trait Port {
    /// Returns the largest packet behind the Ethernet header, as last seen.
    fn mtu(&self) -> u32;

    /// Queues a copy of a frame. What cannot be sent is counted by the port.
    fn send(&mut self, segment: Segment, frame: &[u8]);

    /// Queues frames that `fill` writes, each to the start of its space. `false` if they have to be sent one by one by
    /// [`Port::send`], or if `fill` returned `false`; nothing is queued then.
    fn send_in_place(
        &mut self,
        train: Train<'_>,
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool;

    /// Returns the bytes of frames that wait for a flush.
    fn waiting(&self) -> usize;

    /// Hands on what is queued; `false` if the port has no room for it now.
    fn flush(&mut self) -> bool;

    /// Returns the number of frames handed on so far.
    fn sent_frames(&self) -> u64;

    /// Gives every frame of one batch to `take`, which says whether its segment is one of ours.
    fn receive(&mut self, take: &mut impl FnMut(Received<'_>) -> bool) -> Batch;

    /// Returns when frames that are delayed on purpose are due.
    fn next_deadline(&self) -> Option<Time>;

    /// Queues delayed frames that are due.
    fn release(&mut self);

    /// Looks at the interface again; called about once a second.
    fn refresh(&mut self);
}
