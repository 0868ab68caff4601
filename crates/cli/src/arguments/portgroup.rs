//! The grammar of port groups.

use clap::{ArgGroup, Subcommand};
use vrdma_api::{Name, UnixName, Vlan, Vni, Weight};

use super::{LimitChanges, LimitOptions};

#[derive(Debug, Subcommand)]
pub(crate) enum PortgroupCommand {
    /// Add a port group until the daemon stops
    #[command(after_help = "Example: vrdma portgroup add blue --vlan 10")]
    Add {
        /// 1 to 32 of a-z, 0-9, '_', '.', '-'
        name: Name,
        /// VLAN of its frames on raw uplinks, 1 to 4094; untagged if absent
        #[arg(long)]
        vlan: Option<Vlan>,
        /// VXLAN network of its frames in tunnels, 1 to 16777215; the VLAN's number if absent
        #[arg(long)]
        vni: Option<Vni>,
        /// Let guests' own Ethernet cards send RoCEv2 frames, as Linux's rxe does; otherwise only adapters do
        #[arg(long)]
        allow_roce_frames: bool,
        /// User of the host who may use those of its adapters that name neither users nor groups themselves, by name or
        /// number; may be repeated
        #[arg(long = "user", value_name = "USER")]
        users: Vec<UnixName>,
        /// Group whose members may use them; may be repeated
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<UnixName>,
        #[command(flatten)]
        limits: LimitOptions,
        /// Weight of the turns of all its adapters together beside those of other port groups of a shard, 1 to 100
        #[arg(long, default_value_t, value_name = "N")]
        weight: Weight,
    },
    /// Change the limits, the guarantee and the weight of a port group while it is used, until the daemon stops
    ///
    /// Limits and the guarantee apply to all its adapters together, on all shards.
    #[command(
        after_help = "Example: vrdma portgroup set blue --limit-out 10gbit --limit-in none --weight 3"
    )]
    #[command(group = ArgGroup::new("change").required(true).multiple(true))]
    Set {
        /// The port group
        name: Name,
        #[command(flatten)]
        limits: LimitChanges,
        /// Weight of the turns of all its adapters together beside those of other port groups of a shard, 1 to 100
        #[arg(long, value_name = "N", group = "change")]
        weight: Option<Weight>,
    },
    /// List the port groups
    List,
    /// Show one port group, its limits, and how often they delayed messages
    Show {
        /// The port group
        name: Name,
    },
    /// Remove a port group that has no adapters
    Remove {
        /// The port group
        name: Name,
    },
}
