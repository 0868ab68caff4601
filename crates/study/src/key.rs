//! Names of figures: `study/measure/configuration/size`.
//!
//! ```text
//!  s0/send-lat-polling/virtual/64      s1/mpi-send/host-tcp-four/1GB.2     s4/write-lat/F/2
//!  |  |                |       |
//!  |  what is measured |       `- bytes, or the point of a measure without size: transfer, mesh, ranks; `-` for none
//!  |                   `- between whom, over what
//!  `- the study
//! ```
//!
//! Names of the measures (unit) and their configurations:
//!
//! | study | measures | configurations | sizes |
//! |---|---|---|---|
//! | s0 | `send-lat-polling read-lat-polling send-lat-events read-lat-events` (us) | `native virtual`; published `read-lat-events` has `virtual-tuned virtual-released` | 2 to 8388608 |
//! | s0 | `send-bw-polling read-bw-polling send-bw-events read-bw-events` (MB/s) | `native virtual` | 2 to 8388608 |
//! | s0 | `peak-send-bw-polling peak-read-bw-polling` (Gb/s), `half-power-send-events half-power-read-events` (B), `overhead-read-lat-polling` (us) | `native virtual` | `-`; a size for the overhead |
//! | s1 | `mpi-send` (s) | `{host,vm,container}-{rdma,tcp}-{one,four}`, `{vms,containers}-{rdma,tcp}-four` | `1GB`; of four `1GB.1` to `1GB.4` |
//! | s1 | `cp` (s) | as `mpi-send` | `1GB` |
//! | s1 | `qperf-rc_bw qperf-rc_rdma_read_bw qperf-rc_rdma_write_bw qperf-rc_bi_bw` (GB/s), `qperf-rc_lat qperf-rc_rdma_read_lat qperf-rc_rdma_write_lat` (us), `qperf-tcp_lat` (us) `qperf-tcp_bw` (GB/s) | `host container vm` | `-` |
//! | s1 | `netpipe-bw` (MB/s) | `{host,vm}-{rdma,tcp}-one` | 1 to 4194304 |
//! | s2 | `netpipe-lat` (us) | `native virtual` | 1 to 4194304 |
//! | s2 | `verbs-send-lat verbs-write-lat` 2 B, `verbs-lat-polling verbs-lat-blocking mpi-lat-polling mpi-lat-blocking get-lat ip-lat` 1 B (us), `message-rate` (M/s) | `native virtual` | bytes; `-` for the rate |
//! | s2 | `mpi-lat mpi-bw mpi-rate mpi-multi mpi-bcast mpi-allreduce mpi-alltoall mpi-allgather mpi-barrier` | `native`, `vm-core vm-socket vm-node`, with `-28` for as many ranks | bytes, or ranks and bytes `4x8` |
//! | s2 | `bfs` (s) | `vms-1 vms-2 vms-4 vms-8`, `native` | `-` |
//! | s3 | `cavity` (s) | `pvrdma passthrough tcp rxe` | `n2np40 n4np80 n8np160 n1np20` |
//! | s3 | `cavity-small` (s), a mesh that fits small machines | `pvrdma tcp rxe`, `native-rdma native-tcp` | `np2` |
//! | s3 | `device` (properties that agree) | `pvrdma` | `-` |
//! | s3 | `send-bw` (MB/s) | `pvrdma` | `65536` |
//! | s4 | `write-lat` (us) | `native A B C D E F`; `native-hca`, the host's own adapter | 2 |
//! | s4 | `precopy` (pages/s) | `tcp tcp-one rdma rdma-hosts direct direct-hosts` | `-` |
//! | s4 | `source-seconds destination-seconds` (s a GiB) | `tcp tcp-one rdma rdma-hosts direct direct-hosts` | MiB of the guest |
//! | s4 | `daemon-seconds` (s a GiB) | `rdma rdma-hosts direct direct-hosts` | MiB of the guest |
//! | s4 | `destination-cpu source-cpu` (percent less than TCP) | `rdma direct` | `-` |

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest part of a key; file names consist of three parts.
const PART_MAX: usize = 48;

/// One of the five studies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Study {
    /// RDMA performance in VMs using QDR InfiniBand, 2012.
    S0,
    /// RDMA in multi-tenant virtualization: VMs and containers, 2015.
    S1,
    /// SR-IOV on InfiniBand clusters, 2013.
    S2,
    /// Paravirtual RDMA for high-performance computing, 2021.
    S3,
    /// RDMA for vSphere, 2012.
    S4,
}

impl Study {
    /// All studies, in order.
    pub const ALL: [Self; 5] = [Self::S0, Self::S1, Self::S2, Self::S3, Self::S4];

    /// The name in keys and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::S0 => "s0",
            Self::S1 => "s1",
            Self::S2 => "s2",
            Self::S3 => "s3",
            Self::S4 => "s4",
        }
    }
}

impl fmt::Display for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Study {
    type Err = KeyError;

    fn from_str(name: &str) -> Result<Self, KeyError> {
        let found = Self::ALL.into_iter().find(|study| study.name() == name);
        found.ok_or_else(|| KeyError::Study(name.to_owned()))
    }
}

/// The key of one run of a tool: the figures of a cell differ only by size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    /// The study.
    pub study: Study,
    /// What is measured.
    pub measure: String,
    /// The setting.
    pub configuration: String,
}

/// The key of one figure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The cell.
    pub cell: CellKey,
    /// Bytes, or the point of a measure that has no size.
    pub size: String,
}

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// An unknown study.
    #[error("there is no study {0:?}; there are s0, s1, s2, s3 and s4")]
    Study(String),
    /// Too few or too many parts, or an odd character.
    #[error("{0:?} is no key: study/measure/configuration, and /size for one figure")]
    Shape(String),
}

impl CellKey {
    /// The key of a cell.
    #[must_use]
    pub fn new(study: Study, measure: &str, configuration: &str) -> Self {
        Self {
            study,
            measure: measure.to_owned(),
            configuration: configuration.to_owned(),
        }
    }

    /// The key of one figure of the cell.
    #[must_use]
    pub fn at(&self, size: impl Into<String>) -> Key {
        Key {
            cell: self.clone(),
            size: size.into(),
        }
    }
}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.study, self.measure, self.configuration)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cell, self.size)
    }
}

impl FromStr for CellKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts.as_slice() {
            [study, measure, configuration]
                if [measure, configuration].iter().all(|p| is_part(p)) =>
            {
                Ok(Self::new(study.parse()?, measure, configuration))
            }
            _ => Err(KeyError::Shape(text.to_owned())),
        }
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text.rsplit_once('/') {
            Some((cell, size)) if is_part(size) => Ok(cell.parse::<CellKey>()?.at(size)),
            _ => Err(KeyError::Shape(text.to_owned())),
        }
    }
}

/// Whether a text can be a part. Keys become file names, so they have no characters that a file system or a shell
/// interprets.
fn is_part(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty()
        && text.len() <= PART_MAX
        && !text.starts_with('.')
        && text.bytes().all(allowed)
}

/// Serializes keys as text, which JSON's objects need.
macro_rules! as_text {
    ($($kind:ty),*) => {$(
        impl Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

as_text!(CellKey, Key);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let key = CellKey::new(Study::S4, "write-lat", "F").at("2");
        assert_eq!(key.to_string(), "s4/write-lat/F/2");
        assert_eq!(key.to_string().parse(), Ok(key.clone()));
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), key);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in [
            "",
            "s4",
            "s4/write-lat",
            "s4//F/2",
            "s4/write-lat/../2",
            "s4/a/b/c/d",
            "s4/a/b c/2",
        ] {
            let refused = text.parse::<Key>();
            assert!(matches!(refused, Err(KeyError::Shape(_))), "{text}");
        }
        assert_eq!(
            "s9/a/b/2".parse::<Key>(),
            Err(KeyError::Study("s9".to_owned()))
        );
        let long = format!("s1/{}/b/2", "a".repeat(PART_MAX + 1));
        assert!(long.parse::<Key>().is_err());
    }
}
