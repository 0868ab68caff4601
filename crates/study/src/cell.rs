//! Cells to measure: one row of an experiment's table each.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::key::CellKey;
use crate::tool::Tool;

/// The place of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Endpoint {
    /// Processes of the host.
    Process,
    /// Containers with the guests' root file system, their own processes and network.
    Container,
    /// Virtual machines.
    Vm,
}

/// The transport of their messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Ours.
    Vrdma,
    /// Linux's software RoCE.
    Rxe,
    /// The kernels' TCP.
    Tcp,
    /// A whole RDMA adapter of the host in each guest.
    Passthrough,
    /// A virtual function of an RDMA adapter in each guest.
    Sriov,
    /// Software RoCE over an Ethernet function of the host in each guest.
    RxeSriov,
    /// The host's own RDMA adapter.
    Hca,
}

/// The hosts of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// One host for both sides.
    OneHost,
    /// A host for each side: network namespaces joined by a veth pair.
    TwoHosts,
}

/// The way in which a program learns of completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Completion {
    /// It polls.
    Polling,
    /// It sleeps until it is notified.
    Events,
}

/// The places of the programs and what is between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// The place of the programs.
    pub endpoint: Endpoint,
    /// The transport of their messages.
    pub transport: Transport,
    /// The hosts of the two sides.
    pub placement: Placement,
    /// Groups that do the same at the same time, each in a port group of its own.
    pub tenants: u8,
    /// Guests of each tenant, or sides of its processes.
    #[serde(default = "pair")]
    pub nodes: u8,
    /// Processors of each guest; with processes, those of a side.
    #[serde(default = "one")]
    pub processors: u8,
}

/// The value in results from before there could be more.
const fn pair() -> u8 {
    2
}

const fn one() -> u8 {
    1
}

impl Setting {
    /// A setting with one pair on one host.
    #[must_use]
    pub const fn new(endpoint: Endpoint, transport: Transport) -> Self {
        Self {
            endpoint,
            transport,
            placement: Placement::OneHost,
            tenants: 1,
            nodes: pair(),
            processors: one(),
        }
    }

    /// The same between two hosts.
    #[must_use]
    pub const fn between_hosts(self) -> Self {
        Self {
            placement: Placement::TwoHosts,
            ..self
        }
    }

    /// The same with several pairs at once.
    #[must_use]
    pub const fn tenants(self, tenants: u8) -> Self {
        Self { tenants, ..self }
    }

    /// The same with this number of nodes, and of processors each.
    #[must_use]
    pub const fn spread(self, nodes: u8, processors: u8) -> Self {
        Self {
            nodes,
            processors,
            ..self
        }
    }

    /// The same over another transport.
    #[must_use]
    pub const fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// Processors that its programs keep busy at the same time.
    #[must_use]
    pub fn processors_in_all(self) -> u32 {
        u32::from(self.tenants) * u32::from(self.nodes) * u32::from(self.processors)
    }

    /// Virtual machines that run at the same time.
    #[must_use]
    pub fn guests_in_all(self) -> u32 {
        match self.endpoint {
            Endpoint::Vm => u32::from(self.tenants) * u32::from(self.nodes),
            Endpoint::Process | Endpoint::Container => 0,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = match self.endpoint {
            Endpoint::Process => "processes",
            Endpoint::Container => "containers",
            Endpoint::Vm => "VMs",
        };
        let transport = match self.transport {
            Transport::Vrdma => "vrdma",
            Transport::Rxe => "rxe",
            Transport::Tcp => "TCP",
            Transport::Passthrough => "an adapter each",
            Transport::Sriov => "a virtual function each",
            Transport::RxeSriov => "rxe over an Ethernet function each",
            Transport::Hca => "the host's adapter",
        };
        let placement = match self.placement {
            Placement::OneHost => "one host",
            Placement::TwoHosts => "two hosts",
        };
        write!(f, "{endpoint}, {transport}, {placement}")?;
        if (self.nodes, self.processors) != (pair(), one()) {
            write!(f, ", {} x {} ranks", self.nodes, self.processors)?;
        }
        match self.tenants {
            1 => Ok(()),
            tenants => write!(f, ", {tenants} tenants"),
        }
    }
}

/// A figure's unit, which decides whether less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Microseconds; half the round trip for send and write, the whole for read.
    #[serde(rename = "us")]
    Microseconds,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// 10^6 bytes a second.
    #[serde(rename = "MB/s")]
    Megabytes,
    /// 10^9 bytes a second.
    #[serde(rename = "GB/s")]
    Gigabytes,
    /// 10^9 bits a second.
    #[serde(rename = "Gb/s")]
    Gigabits,
    /// 10^6 messages a second.
    #[serde(rename = "M/s")]
    MegaMessages,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Memory pages a second.
    #[serde(rename = "pages/s")]
    Pages,
    /// Percent.
    #[serde(rename = "%")]
    Percent,
    /// Traversed edges a second, in 10^6 (Graph500).
    #[serde(rename = "MTEPS")]
    MegaEdges,
    /// A count.
    #[serde(rename = "count")]
    Count,
}

impl Unit {
    /// The unit as it is printed.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Microseconds => "us",
            Self::Seconds => "s",
            Self::Megabytes => "MB/s",
            Self::Gigabytes => "GB/s",
            Self::Gigabits => "Gb/s",
            Self::MegaMessages => "M/s",
            Self::Bytes => "B",
            Self::Pages => "pages/s",
            Self::Percent => "%",
            Self::MegaEdges => "MTEPS",
            Self::Count => "count",
        }
    }

    /// Whether less is better.
    #[must_use]
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Microseconds | Self::Seconds | Self::Bytes)
    }
}

/// The source of a cell's figures.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// A tool that is run.
    Run(Setting, Tool),
    /// Figures of other cells, which must be measured first.
    Derived(Derivation),
    /// OpenFOAM with this number of ranks.
    Ranks(u32),
    /// Nothing here can measure it; this is the reason.
    Never(&'static str),
}

/// A figure computed from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Derivation {
    /// The largest of a measure's figures, in Gb/s.
    Peak(&'static str),
    /// The smallest size that reaches half of the largest figure.
    HalfPower(&'static str),
    /// The additional time of `virtual` over `native` at each size.
    Overhead(&'static str),
    /// The saving against `tcp`, in percent: of a measure's single figure.
    Saving(&'static str),
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its name.
    pub key: CellKey,
    /// Unit of its figures.
    pub unit: Unit,
    /// Source of its figures.
    pub work: Work,
}
