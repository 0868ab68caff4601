//! Whether this machine has room for a cell's guests and ranks.

use crate::cell::{Endpoint, Setting};
use crate::machine;

/// Most processors, virtual or of ranks, that share one of this machine's: with more, a cell measures the scheduler and
/// guests lose their watchdogs.
const SHARES_MAX: u32 = 4;

/// Memory for the host itself, QEMUs and daemon, in MiB.
const HOST_MIB: u64 = 1024;

/// Memory of a guest, and in addition for each of its processors, in MiB: a rank with UCX takes the latter.
const GUEST_MIB: u32 = 512;
const PROCESSOR_MIB: u32 = 128;

/// The available resources.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Number of processors.
    pub cores: usize,
    /// Unused memory, in MiB.
    pub available_mib: u64,
}

impl Room {
    /// The resources of this machine now.
    #[must_use]
    pub fn look() -> Self {
        Self {
            cores: machine::cores(),
            available_mib: machine::available_mib(),
        }
    }

    /// Processors of a setting for each one of this machine's.
    #[must_use]
    pub fn crowd(&self, setting: Setting) -> u64 {
        let shares = (setting.processors_in_all() as usize).div_ceil(self.cores.max(1));
        shares as u64
    }
}

/// Memory of a guest with this number of processors.
#[must_use]
pub fn guest_mib(processors: u8) -> u32 {
    GUEST_MIB + PROCESSOR_MIB * u32::from(processors)
}

/// Why there is no room for a setting, as one sentence.
#[must_use]
pub fn lack(setting: Setting, room: &Room) -> Option<String> {
    let (processors, guests) = (setting.processors_in_all(), setting.guests_in_all());
    let cores = room.cores;
    if u64::from(processors) > cores as u64 * u64::from(SHARES_MAX) {
        let what = match setting.endpoint {
            Endpoint::Vm => "virtual processors",
            Endpoint::Process | Endpoint::Container => "ranks",
        };
        let least = processors.div_ceil(SHARES_MAX);
        return Some(format!(
            "{processors} {what} need {least} cores at least, and this machine has {cores}"
        ));
    }
    let needed = u64::from(guests) * u64::from(guest_mib(setting.processors)) + HOST_MIB;
    (guests > 0 && needed > room.available_mib).then(|| {
        format!(
            "{guests} guests of {} MiB need {needed} MiB with what serves them, and this machine has {} MiB free",
            guest_mib(setting.processors),
            room.available_mib
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Transport;

    const ROOM: Room = Room {
        cores: 2,
        available_mib: 8192,
    };

    fn lacks(endpoint: Endpoint, tenants: u8, nodes: u8, processors: u8) -> Option<String> {
        let setting = Setting::new(endpoint, Transport::Vrdma).tenants(tenants);
        lack(setting.spread(nodes, processors), &ROOM)
    }

    #[test]
    fn eight_small_guests_fit_two_cores() {
        assert_eq!(lacks(Endpoint::Vm, 4, 2, 1), None);
        assert_eq!(lacks(Endpoint::Vm, 1, 8, 1), None);
        assert_eq!(lacks(Endpoint::Process, 1, 2, 4), None);
    }

    #[test]
    fn processors_that_share_a_core_are_a_crowd() {
        let crowd = |setting| ROOM.crowd(setting);
        let pair = Setting::new(Endpoint::Vm, Transport::Vrdma);
        assert_eq!([crowd(pair), crowd(pair.tenants(4))], [1, 4]);
        assert_eq!([crowd(pair.spread(1, 1)), crowd(pair.spread(3, 1))], [1, 2]);
    }

    #[test]
    fn who_does_not_fit_is_told_what_it_takes() {
        assert_eq!(
            lacks(Endpoint::Vm, 1, 28, 1).unwrap(),
            "28 virtual processors need 7 cores at least, and this machine has 2"
        );
        assert!(
            lacks(Endpoint::Process, 1, 2, 14)
                .unwrap()
                .contains("28 ranks")
        );
        let small = Room {
            available_mib: 2000,
            ..ROOM
        };
        let setting = Setting::new(Endpoint::Vm, Transport::Vrdma).spread(4, 1);
        assert_eq!(
            lack(setting, &small).unwrap(),
            "4 guests of 640 MiB need 3584 MiB with what serves them, and this machine has 2000 MiB free"
        );
    }
}
