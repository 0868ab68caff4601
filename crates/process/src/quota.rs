//! Quotas: the most that one client, one user and all users together may have of the daemon's resources.
//!
//! The quotas of all users leave a reserve of the descriptors, mappings and memory that the machine gives the daemon:
//! for VMs, uplinks and the daemon itself.

use rustix::process::{Resource, getrlimit};
use rustix::system::sysinfo;

use crate::limits;

/// The kinds of resources that are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Connections to the daemon.
    Session,
    /// Protection domains.
    Pd,
    /// Memory regions and windows.
    Mr,
    /// Regions that are files mapped by the daemon.
    File,
    /// Bytes of those files in the daemon's address space.
    FileBytes,
    /// Completion queues.
    Cq,
    /// Queue pairs.
    Qp,
    /// Shared receive queues.
    Srq,
    /// Queue pairs in multicast groups, each once for every group.
    Attachment,
    /// Bytes of ring memory.
    RingBytes,
    /// Descriptors of the daemon.
    Descriptor,
    /// Mappings in the daemon's address space.
    Mapping,
    /// Clients of connection management.
    CmClient,
    /// Identifiers of connection management, including those of waiting requests.
    Identifier,
    /// Multicast groups joined by connection management.
    Group,
    /// Unread events of connection management.
    Event,
}

/// Number of kinds.
pub(super) const KINDS: usize = Kind::ALL.len();

/// Counts by [`Kind`].
pub(super) type Counts = [u64; KINDS];

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::Session,
        Self::Pd,
        Self::Mr,
        Self::File,
        Self::FileBytes,
        Self::Cq,
        Self::Qp,
        Self::Srq,
        Self::Attachment,
        Self::RingBytes,
        Self::Descriptor,
        Self::Mapping,
        Self::CmClient,
        Self::Identifier,
        Self::Group,
        Self::Event,
    ];

    /// The kind's name, for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "sessions",
            Self::Pd => "protection domains",
            Self::Mr => "memory regions and windows",
            Self::File => "mapped files",
            Self::FileBytes => "bytes of mapped files",
            Self::Cq => "completion queues",
            Self::Qp => "queue pairs",
            Self::Srq => "shared receive queues",
            Self::Attachment => "multicast attachments",
            Self::RingBytes => "bytes of rings",
            Self::Descriptor => "descriptors",
            Self::Mapping => "mappings",
            Self::CmClient => "clients of rdma_cm",
            Self::Identifier => "identifiers of rdma_cm",
            Self::Group => "groups of rdma_cm",
            Self::Event => "unread events of rdma_cm",
        }
    }
}

/// The quotas of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Most {
    /// Quota of one client.
    pub(super) client: u64,
    /// Quota of all clients of one user.
    pub(super) user: u64,
    /// Quota of all users.
    pub(super) all: u64,
}

/// The resources that the machine gives the daemon as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) descriptors: u64,
    pub(super) mappings: u64,
    pub(super) memory: u64,
}

/// Most mappings of a process unless `vm.max_map_count` says otherwise.
const USUAL_MAPPINGS: u64 = 65530;

impl Machine {
    /// Reads the resources of this machine. To be called after the daemon's limits were set.
    pub(super) fn here() -> Self {
        let mappings = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        let mappings = mappings.ok().and_then(|text| text.trim().parse().ok());
        let system = sysinfo();
        Self {
            descriptors: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
            mappings: mappings.unwrap_or(USUAL_MAPPINGS),
            memory: (system.totalram as u64).saturating_mul(u64::from(system.mem_unit)),
        }
    }
}

/// All quotas of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quotas([Most; KINDS]);

impl Quotas {
    pub(super) fn of(machine: Machine) -> Self {
        Self(Kind::ALL.map(|kind| most(kind, machine)))
    }

    pub(super) fn most(&self, kind: Kind) -> Most {
        self.0[kind as usize]
    }
}

/// Keeps a quarter of the machine's resources for others than processes.
fn without_reserve(whole: u64) -> u64 {
    whole - whole.div_ceil(4)
}

/// Leaves a quarter to the other users.
fn of_one_user(all: u64) -> u64 {
    all - all.div_ceil(4)
}

fn most(kind: Kind, machine: Machine) -> Most {
    let (client, user) = match kind {
        Kind::Session => (1, limits::SESSIONS_A_USER.into()),
        Kind::Pd => worth(limits::PDS.into()),
        Kind::Mr => worth(limits::MRS.into()),
        Kind::File => worth(limits::FILES.into()),
        Kind::FileBytes => worth(limits::FILE_BYTES),
        Kind::Cq => worth(limits::CQS.into()),
        Kind::Qp => worth(limits::QPS.into()),
        Kind::Srq => worth(limits::SRQS.into()),
        Kind::Attachment => (limits::ATTACHMENTS, limits::ATTACHMENTS),
        Kind::RingBytes => worth(limits::RING_BYTES),
        Kind::Descriptor | Kind::Mapping => (u64::MAX, u64::MAX),
        Kind::CmClient => (1, limits::CM_CLIENTS_A_USER),
        Kind::Identifier => worth(limits::IDENTIFIERS),
        Kind::Group => worth(limits::GROUPS),
        Kind::Event => worth(limits::EVENTS),
    };
    let all = match kind {
        Kind::FileBytes => limits::FILE_BYTES_OF_ALL,
        Kind::RingBytes => machine.memory / 4,
        Kind::Descriptor => without_reserve(machine.descriptors),
        Kind::Mapping => without_reserve(machine.mappings),
        // Files take stretches of the address space, with guards, which guests' memory needs, too.
        Kind::File => limits::FILES_OF_ALL,
        _ => user.saturating_mul(limits::USERS_WORTH),
    };
    let user = user.min(of_one_user(all));
    Most {
        client: client.min(user),
        user,
        all,
    }
}

/// The quotas of one client, and of all clients of a user.
fn worth(client: u64) -> (u64, u64) {
    (client, client.saturating_mul(limits::CLIENTS_WORTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_in_their_order() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number, "{}", kind.name());
        }
    }

    #[test]
    fn a_client_has_less_than_its_user_and_a_user_less_than_all() {
        let small = Machine {
            descriptors: 1024,
            mappings: USUAL_MAPPINGS,
            memory: 1 << 30,
        };
        let large = Machine {
            descriptors: u64::MAX,
            mappings: 1 << 24,
            memory: 1 << 42,
        };
        for machine in [small, large] {
            let quotas = Quotas::of(machine);
            for kind in Kind::ALL {
                let Most { client, user, all } = quotas.most(kind);
                let name = kind.name();
                assert!(0 < client && client <= user && user < all, "{name}");
            }
        }
        let quotas = Quotas::of(small);
        assert_eq!(quotas.most(Kind::Descriptor).all, 768);
        assert_eq!(quotas.most(Kind::Descriptor).user, 576);
        assert_eq!(quotas.most(Kind::RingBytes).all, 1 << 28);
    }
}
