//! What must be started for a setting.

use crate::cell::{Endpoint, Placement, Setting, Transport};

/// Seconds of a guest's boot beside another one, about, on emulated processors.
const BOOT: u64 = 8;

/// Seconds to start the adapters of processes, about.
const PROCESSES: u64 = 2;

/// What must be started for a setting; several settings share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needed {
    Processes(Placement),
    Host,
    Lent(Transport),
    Guests {
        rxe: bool,
        placement: Placement,
    },
    Cluster {
        tenants: u8,
        nodes: u8,
        processors: u8,
    },
}

/// What a setting needs.
pub(crate) fn needed(setting: Setting) -> Needed {
    let placement = setting.placement;
    match setting.transport {
        Transport::Hca => return Needed::Host,
        lent @ (Transport::Passthrough | Transport::Sriov | Transport::RxeSriov) => {
            return Needed::Lent(lent);
        }
        Transport::Vrdma | Transport::Rxe | Transport::Tcp => {}
    }
    match setting.endpoint {
        Endpoint::Process | Endpoint::Container => Needed::Processes(placement),
        Endpoint::Vm if (setting.tenants, setting.nodes, setting.processors) == (1, 2, 1) => {
            Needed::Guests {
                rxe: setting.transport == Transport::Rxe,
                placement,
            }
        }
        Endpoint::Vm => Needed::Cluster {
            tenants: setting.tenants,
            nodes: setting.nodes,
            processors: setting.processors,
        },
    }
}

impl Needed {
    /// Seconds of its start, about.
    pub(crate) fn seconds(self) -> u64 {
        match self {
            Self::Processes(_) => PROCESSES,
            Self::Host => 0,
            Self::Lent(_) | Self::Guests { .. } => 2 * BOOT,
            Self::Cluster { tenants, nodes, .. } => u64::from(tenants) * u64::from(nodes) * BOOT,
        }
    }

    pub(super) fn title(self) -> String {
        let hosts = |placement| match placement {
            Placement::OneHost => "of one host",
            Placement::TwoHosts => "of two hosts",
        };
        match self {
            Self::Processes(placement) => format!("start processes' adapters {}", hosts(placement)),
            Self::Host => "use the host's adapter".to_owned(),
            Self::Lent(_) => "boot two guests with network cards of this host".to_owned(),
            Self::Guests { rxe, placement } => {
                let kind = if rxe { "rxe" } else { "vrdma" };
                format!("boot two {kind} guests {}", hosts(placement))
            }
            Self::Cluster {
                tenants,
                nodes,
                processors,
            } => format!(
                "boot {nodes} guests of {processors} processors for each of {tenants} tenants"
            ),
        }
    }
}
