//! The processes that end in each phase.

use vrdma_migration::Phase;

use super::Victim;

/// All phases before the point of no return in which a process may end.
pub(super) const ROWS: [(Phase, &[Victim]); 7] = [
    (
        Phase::Copy,
        &[
            Victim::Interrupted,
            Victim::Orchestrator,
            Victim::Qemu,
            Victim::Daemon,
            Victim::Relay,
            Victim::SilentRelay,
        ],
    ),
    (
        Phase::Freeze,
        &[
            Victim::Interrupted,
            Victim::Orchestrator,
            Victim::Qemu,
            Victim::Daemon,
            Victim::NewDaemon,
            Victim::Relay,
        ],
    ),
    (
        Phase::HandOver,
        &[
            Victim::Interrupted,
            Victim::Orchestrator,
            Victim::Qemu,
            Victim::Daemon,
            Victim::NewDaemon,
        ],
    ),
    (
        Phase::SwitchOver,
        &[
            Victim::Interrupted,
            Victim::Orchestrator,
            Victim::Qemu,
            Victim::Relay,
        ],
    ),
    (
        Phase::Configure,
        &[
            Victim::Interrupted,
            Victim::Orchestrator,
            Victim::Qemu,
            Victim::NewDaemon,
        ],
    ),
    (
        Phase::Restore,
        &[
            Victim::Interrupted,
            Victim::Orchestrator,
            Victim::Qemu,
            Victim::NewDaemon,
        ],
    ),
    (
        Phase::Release,
        &[
            Victim::Interrupted,
            Victim::Orchestrator,
            Victim::Qemu,
            Victim::Daemon,
            Victim::NewDaemon,
        ],
    ),
];
