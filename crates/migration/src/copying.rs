//! How QEMU carries the memory, as capabilities and parameters of both sides.
//!
//! Settings for a migration are set back when it is taken back: capabilities to off, as QEMU starts, and parameters to
//! their earlier values.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::machine::Side;
use crate::relay::RelayProgram;

/// The capability that makes the source wait before its last pass over the memory.
const PAUSE: &str = "pause-before-switchover";

/// The capability that slows the VM down.
const AUTO_CONVERGE: &str = "auto-converge";

/// The capability for memory that follows the VM.
pub(crate) const POST_COPY: &str = "postcopy-ram";

/// The capability for several streams.
pub(crate) const MULTIFD: &str = "multifd";

/// The capability for a stream that is written into a file.
pub(crate) const MAPPED: &str = "mapped-ram";

/// The capability that registers all memory once, instead of each MiB when it is first sent: twice the pages per
/// second. The memory is shared with the daemon, so no more of it is pinned than before.
const PIN_ALL: &str = "rdma-pin-all";

/// Prefix of QEMU's URIs for its own RDMA.
const RDMA: &str = "rdma:";

/// Prefix of our URIs, for memory that is placed by a relay.
const DIRECT: &str = "direct:";

/// QEMU's value for no limit.
const UNLIMITED: u64 = 0;

/// How the memory is transferred.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copying {
    /// A migration URI of QEMU's own, which both sides are given; or `direct:HOST:PORT`, the address at which a relay
    /// listens at the destination.
    pub uri: String,
    /// Longest time that the VM may stand still for the rest of its memory; QEMU's own limit if absent.
    pub downtime_limit: Option<Duration>,
    /// Most bytes sent in a second; without it there is no limit, whereas QEMU's own is 128 MiB/s.
    pub bandwidth_limit: Option<u64>,
    /// Whether the VM is slowed down more and more if it writes faster than its memory is sent.
    pub auto_converge: bool,
    /// Whether the VM goes on at the destination after one pass, and the pages that it has written since follow it.
    pub post_copy: bool,
    /// Parallel streams, for URIs of sockets; one if absent.
    pub channels: Option<u8>,
    /// The relay of this side, for `direct:`.
    pub relay: Option<RelayProgram>,
}

impl Copying {
    /// Copies by a URI, with defaults for the rest.
    #[must_use]
    pub fn by(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            downtime_limit: None,
            bandwidth_limit: None,
            auto_converge: false,
            post_copy: false,
            channels: None,
            relay: None,
        }
    }

    /// Describes options that exclude each other.
    pub(crate) fn conflict(&self) -> Option<String> {
        if self.post_copy && (self.is_rdma() || self.channels.is_some()) {
            return Some(
                "post-copy goes by tcp:, unix: or direct: in one stream; choose one of these, and leave the number of channels out"
                    .to_owned(),
            );
        }
        let has_one = self.is_rdma() || self.uri.starts_with(DIRECT);
        let both = has_one && self.channels.is_some();
        both.then(|| {
            format!(
                "there is one stream for {}; leave the number of channels out",
                self.uri
            )
        })
    }

    /// Returns the address at which the destination's relay listens, if memory is placed by one.
    pub(crate) fn relay_address(&self) -> Option<&str> {
        self.uri.strip_prefix(DIRECT)
    }

    fn is_rdma(&self) -> bool {
        self.uri.starts_with(RDMA)
    }

    /// Returns the argument of `migrate-set-capabilities`, for both sides.
    pub(crate) fn capabilities(&self, is_on: bool) -> Value {
        let mut names = vec!["events", PAUSE];
        names.extend(self.is_rdma().then_some(PIN_ALL));
        names.extend(self.channels.filter(|_| is_on).map(|_| MULTIFD));
        // Those for a relay's file, which is offered to the source alone.
        names.extend([MULTIFD, MAPPED].iter().filter(|_| !is_on));
        names.extend(self.auto_converge.then_some(AUTO_CONVERGE));
        names.extend(self.post_copy.then_some(POST_COPY));
        let state = |name: &str| is_on || name == "events";
        let all = names
            .iter()
            .map(|name| json!({ "capability": name, "state": state(name) }));
        json!({ "capabilities": all.collect::<Vec<_>>() })
    }

    /// Returns the argument of `migrate-set-parameters`.
    pub(crate) fn parameters(&self, side: Side) -> Value {
        let mut parameters = Map::new();
        if let Some(channels) = self.channels {
            parameters.insert("multifd-channels".to_owned(), channels.into());
        }
        if side == Side::Source {
            let bandwidth = self.bandwidth_limit.unwrap_or(UNLIMITED);
            parameters.insert("max-bandwidth".to_owned(), bandwidth.into());
            let downtime = self.downtime_limit.map(|limit| limit.as_millis() as u64);
            parameters.extend(downtime.map(|ms| ("downtime-limit".to_owned(), ms.into())));
        }
        parameters.into()
    }

    /// Picks those parameters that would be changed from all that QEMU reports.
    pub(crate) fn parameters_before(&self, side: Side, all: &Value) -> Value {
        let Value::Object(mut changed) = self.parameters(side) else {
            return json!({});
        };
        changed.retain(|name, value| match all.get(name) {
            Some(before) => {
                *value = before.clone();
                true
            }
            None => false,
        });
        changed.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(copying: &Copying) -> Vec<String> {
        let capabilities = copying.capabilities(true);
        let all = capabilities["capabilities"].as_array().unwrap().iter();
        all.map(|it| it["capability"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn rdma_registers_all_memory_and_has_one_stream() {
        let rdma = Copying::by("rdma:192.0.2.2:4444");
        assert_eq!(names(&rdma), ["events", PAUSE, PIN_ALL]);
        let several = Copying {
            channels: Some(2),
            ..rdma
        };
        let said = several.conflict().unwrap();
        assert!(said.contains("leave the number of channels out"), "{said}");
        let tcp = Copying {
            uri: "tcp:192.0.2.2:4444".to_owned(),
            auto_converge: true,
            ..several
        };
        assert_eq!(tcp.conflict(), None);
        assert_eq!(names(&tcp), ["events", PAUSE, MULTIFD, AUTO_CONVERGE]);
    }

    #[test]
    fn events_stay_on_and_all_else_goes_off_again() {
        let off = Copying::by("tcp:192.0.2.2:4444").capabilities(false);
        let expected = json!([
            { "capability": "events", "state": true },
            { "capability": PAUSE, "state": false },
            { "capability": MULTIFD, "state": false },
            { "capability": MAPPED, "state": false },
        ]);
        assert_eq!(off["capabilities"], expected);
    }

    #[test]
    fn what_is_changed_can_be_changed_back() {
        let copying = Copying {
            downtime_limit: Some(Duration::from_millis(50)),
            channels: Some(4),
            ..Copying::by("tcp:192.0.2.2:4444")
        };
        let source = copying.parameters(Side::Source);
        let expected = json!({ "multifd-channels": 4, "max-bandwidth": 0, "downtime-limit": 50 });
        assert_eq!(source, expected);
        assert_eq!(
            copying.parameters(Side::Destination),
            json!({ "multifd-channels": 4 })
        );
        let told = json!({ "max-bandwidth": 1 << 27, "downtime-limit": 300, "tls-creds": "" });
        assert_eq!(
            copying.parameters_before(Side::Source, &told),
            json!({ "max-bandwidth": 1 << 27, "downtime-limit": 300 })
        );
    }
}
