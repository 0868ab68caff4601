//! What the carrier asks of an uplink.

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

/// What marks the frames of a port group outside the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// 802.1Q tag on raw uplinks; none is untagged.
    pub vlan: Option<u16>,
    /// VXLAN network in tunnels; without one the group stays out of them.
    pub vni: Option<u32>,
}

impl Marks {
    /// On an uplink of that kind; `None` if the group must not leave by it.
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
    /// Where it belongs.
    pub segment: Segment,
    /// Destination MAC to payload.
    pub frame: &'a [u8],
}

/// What one batch of arrivals was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batch {
    /// Nothing waited.
    Empty,
    /// All that waited.
    All,
    /// As much as one batch may have; more may wait.
    Full,
}

impl Batch {
    /// That of so many arrivals.
    pub fn of(arrivals: usize, has_more: bool) -> Self {
        match (arrivals, has_more) {
            (0, _) => Self::Empty,
            (_, false) => Self::All,
            (_, true) => Self::Full,
        }
    }
}

/// Several frames for one station, which are written where the uplink sends them from.
#[derive(Clone, Copy, Debug)]
pub struct Train<'a> {
    /// Where they belong.
    pub segment: Segment,
    /// The station.
    pub to: Mac,
    /// Bytes of each.
    pub lengths: &'a [usize],
}

/// The carrier's end of an uplink.
pub trait Port {
    /// The largest packet behind the Ethernet header, as last seen.
    fn mtu(&self) -> u32;

    /// Queues a copy of a frame. What cannot be sent is counted by the port.
    fn send(&mut self, segment: Segment, frame: &[u8]);

    /// Queues frames that `fill` writes, each to the front of its room. `false` if they have to be sent
    /// one by one by [`Port::send`], or if `fill` said so; nothing is queued then.
    fn send_in_place(
        &mut self,
        train: Train<'_>,
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool;

    /// Bytes of frames that wait for a flush.
    fn waiting(&self) -> usize;

    /// Hands on what is queued; `false` if there is no room for it now.
    fn flush(&mut self) -> bool;

    /// Frames handed on so far.
    fn sent_frames(&self) -> u64;

    /// Gives every frame of one batch to `take`, which says whether its segment is one of ours.
    fn receive(&mut self, take: &mut impl FnMut(Received<'_>) -> bool) -> Batch;

    /// When frames that are delayed on purpose are due.
    fn next_deadline(&self) -> Option<Time>;

    /// Queues those that are due.
    fn release(&mut self);

    /// Looks at the interface again; called about once a second.
    fn refresh(&mut self);
}
