//! The configuration of a device: its identity, and how much a guest may take.

use vrdma_verbs::object::Identity;
use vrdma_wire::Mtu;

/// The configuration of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceConfig {
    /// Identity of the adapter.
    pub identity: Identity,
    /// Whether doorbell pages of programs are memory that the device looks at. Otherwise each doorbell is a register
    /// write, as doorbells in the kernel's page 0 always are.
    pub maps_doorbells: bool,
    /// Longest message unit for local delivery, in bytes; a multiple of 4096.
    pub unit_bytes: u32,
    /// Payload of one packet, as the port reports it.
    pub mtu: Mtu,
    /// Bounds on what the guest may take.
    pub limits: DeviceLimits,
}

impl DeviceConfig {
    /// Longest local unit: long enough to make its cost small beside the copy, short enough
    /// (10 to 100 us) that no queue pair holds up the others.
    pub const UNIT_BYTES: u32 = 256 << 10;

    /// A device with the usual limits.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            maps_doorbells: true,
            unit_bytes: Self::UNIT_BYTES,
            mtu: Mtu::B4096,
            limits: DeviceLimits::default(),
        }
    }
}

/// Bounds on what a guest may take. Those that the driver checks too are advertised in the capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceLimits {
    /// Contexts of programs plus the kernel's, a power of two: each has a doorbell page in BAR 2.
    pub uar_pages: u32,
    /// Protection domains, below 2^24.
    pub pds: u32,
    /// Memory regions, below 2^24.
    pub mrs: u32,
    /// Completion queues, below 2^24.
    pub cqs: u32,
    /// Queue pairs plus one, at most 65535: user libraries cut the number to 16 bits.
    pub qps: u32,
    /// Shared receive queues.
    pub srqs: u32,
    /// Work requests of one queue, a power of two.
    pub queue_requests: u32,
    /// Completions of one queue, a power of two.
    pub queue_completions: u32,
    /// Buffers of one work request, a power of two up to 128, or entries would cross pages.
    pub sges: u32,
    /// Buffers of one READ: at most 16, or NFS/RDMA halves its depth.
    pub read_sges: u32,
    /// Entries of the GID table, at most 256.
    pub gids: u32,
    /// READs and atomics outstanding in either direction of a queue pair.
    pub rd_atomic: u8,
    /// Most pages that all page lists together may name: each costs the daemon 8 bytes.
    pub listed_pages: u64,
}

impl Default for DeviceLimits {
    /// Limits for MPI jobs of a large guest: a full mesh of some hundred processes, 32 buffers a request (the most that
    /// Open MPI and NVMe targets use, with a 1 KiB entry), and 64 GiB of registered memory for 128 MiB of page lists.
    fn default() -> Self {
        Self {
            uar_pages: 1024,
            pds: 16384,
            mrs: 1 << 17,
            cqs: 16384,
            qps: 16384,
            srqs: 1024,
            queue_requests: 16384,
            queue_completions: 1 << 20,
            sges: 32,
            read_sges: 16,
            gids: 128,
            rd_atomic: 16,
            listed_pages: 16 << 20,
        }
    }
}

impl DeviceLimits {
    /// Longest memory region: what one page directory can name.
    pub const REGION_BYTES: u64 = 1 << 30;
    /// Longest message.
    pub const MESSAGE_BYTES: u32 = 1 << 30;

    /// Checks the limits: the driver rounds some numbers up after comparing them, and indexes tables with others.
    pub(crate) fn assert_consistent(&self) {
        let powers = [
            self.uar_pages,
            self.queue_requests,
            self.queue_completions,
            self.sges,
        ];
        assert!(
            powers.iter().all(|limit| limit.is_power_of_two()),
            "{self:?}"
        );
        assert!(self.uar_pages >= 2 && self.uar_pages <= 1 << 16, "{self:?}");
        assert!(self.sges <= 128 && self.read_sges <= self.sges, "{self:?}");
        assert!(self.qps <= 0xffff && self.gids <= 256, "{self:?}");
        assert!(self.pds.max(self.cqs).max(self.mrs) < 1 << 24, "{self:?}");
    }
}
