//! Counters, which are saved, too: an operator's numbers do not begin anew because an adapter changed its host.

use crate::counters::{Counters, Drops, Traffic};
use crate::saved::record;

/// Converts between two structures with the same fields, both ways.
macro_rules! same_fields {
    ($type:ident { $($field:ident),* $(,)? } $(nested { $($nested:ident),* })?) => {
        impl From<&$type> for record::$type {
            fn from(from: &$type) -> Self {
                Self {
                    $($field: from.$field,)*
                    $($($nested: (&from.$nested).into(),)*)?
                }
            }
        }

        impl From<&record::$type> for $type {
            fn from(from: &record::$type) -> Self {
                Self {
                    $($field: from.$field,)*
                    $($($nested: (&from.$nested).into(),)*)?
                }
            }
        }
    };
}

same_fields!(Traffic {
    sends,
    writes,
    reads,
    atomics,
    datagrams,
    bytes,
});

same_fields!(Drops {
    unknown_qp,
    wrong_state,
    wrong_peer,
    unbound_gid,
    wrong_qkey,
    malformed,
    no_receive,
    out_of_sequence,
    source_fault,
    stale_response,
    no_access,
    wrong_pkey,
});

same_fields!(Counters {
    duplicates,
    naks_sent,
    sequence_naks_sent,
    rnr_naks_sent,
    naks_received,
    sequence_naks_received,
    rnr_naks_received,
    retries,
    timeouts,
    congestion_received,
    congestion_sent,
} nested { sent, received, drops });
