//! Numbers of what happened in runs, to see that they cover what they should.

use std::ops::AddAssign;

use crate::world::World;

macro_rules! summary {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Sums over runs.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Summary {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl AddAssign for Summary {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }

        impl Summary {
            /// Returns every number with its name.
            pub fn numbers(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field)),*]
            }
        }
    };
}

summary! {
    /// Number of runs.
    runs,
    /// Requests that completed, with any outcome.
    requests,
    /// Messages that took a receive.
    messages,
    /// Ends that failed.
    failures,
    /// Frames that adapters sent.
    frames,
    /// Frames lost by faults or by links that were down.
    lost,
    /// Frames lost because a queue was full.
    overflowed,
    /// Frames marked because a queue was long.
    marked,
    /// Frames refused by a host: broken, or for nobody.
    refused,
    /// Times that frames waited because an uplink was full.
    held_up,
    /// Frames sent by strangers.
    foreign,
    /// Number of times that a requester went back.
    retries,
    /// Retries because of a time-out.
    timeouts,
    /// PSN sequence errors reported.
    sequence_naks,
    /// NAKs of receivers that were not ready.
    rnr_naks,
    /// Requests that were seen again.
    duplicates,
    /// Congestion notifications.
    congestion,
    /// Adapters that moved.
    migrations,
    /// Devices that went on at another host.
    device_moves,
    /// Devices that were frozen and went on where they were.
    device_thaws,
    /// Notices by which peers are told of stops and moves, or ask about them.
    notices,
    /// Processes that ended and were followed by another.
    device_crashes,
    /// Runs with adapters that want more than they can get.
    crowds,
    /// Turns of the carrier in those runs.
    crowd_turns,
    /// Short messages sent beside greedy neighbours.
    light_messages,
    /// Adapters and port groups with a limit.
    limited,
    /// Adapters and port groups with a guarantee.
    guaranteed,
    /// Asynchronous events.
    events,
    /// Moments to which the clock moved.
    moments,
}

impl Summary {
    pub(crate) fn of(world: &World) -> Self {
        let fates = world.cluster.network.fates;
        let mut summary = Self {
            runs: 1,
            requests: world.ends.iter().map(|end| end.done as u64).sum(),
            messages: world.ends.iter().map(|end| end.arrived as u64).sum(),
            failures: world.ends.iter().filter(|end| end.failed_alone()).count() as u64,
            frames: fates.sent,
            lost: fates.lost,
            overflowed: fates.overflowed + world.cluster.overrun(),
            marked: fates.marked,
            refused: world.cluster.refused(),
            held_up: world.cluster.held_up,
            foreign: world.cluster.stranger.sent,
            migrations: world.migrations,
            events: world.events,
            moments: world.moments,
            ..Self::default()
        };
        for adapter in world.cluster.adapters() {
            let counters = adapter.hca.counters();
            summary.retries += counters.retries;
            summary.timeouts += counters.timeouts;
            summary.sequence_naks += counters.sequence_naks_sent;
            summary.rnr_naks += counters.rnr_naks_sent;
            summary.duplicates += counters.duplicates;
            summary.congestion += counters.congestion_received;
        }
        summary
    }
}
