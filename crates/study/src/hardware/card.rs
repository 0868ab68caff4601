//! A network card of this host, and the obstacles to lending it.

use super::loan::LENDER;
use super::tree::{PciAddress, Tree};

/// PCI class 02 is network, 0207 InfiniBand; RDMA adapters of Ethernet are 0200 too.
const NETWORK_CLASS: &str = "0x02";

/// PCI class 06 is a bridge, which may share a group.
const BRIDGE_CLASS: &str = "0x06";

/// The destination of a default route, as the kernel prints it.
const ANYWHERE: &str = "00000000";

/// `IFF_UP` in an interface's flags.
const UP: u32 = 1;

/// One PCI function.
#[derive(Debug, Clone)]
pub(super) struct Card {
    pub(super) address: PciAddress,
    interfaces: Vec<String>,
    pub(super) is_rdma: bool,
    /// Numbers of virtual functions: possible and present ones.
    functions: [u32; 2],
}

/// All network cards of this host, without virtual functions.
pub(super) fn cards(tree: &Tree) -> Vec<Card> {
    let names = tree.names(&tree.path("sys/bus/pci/devices"));
    let addresses = names.into_iter().map(PciAddress::new);
    let is_card = |address: &PciAddress| {
        let class = tree.read(&tree.function(address, "class"));
        class.starts_with(NETWORK_CLASS) && tree.link(&tree.function(address, "physfn")).is_none()
    };
    addresses
        .filter(is_card)
        .map(|address| card(tree, address))
        .collect()
}

fn card(tree: &Tree, address: PciAddress) -> Card {
    let children = tree.names(&tree.function(&address, ""));
    // The interface of a virtio card belongs to a device below it.
    let virtio = children.iter().filter(|name| name.starts_with("virtio"));
    let folders = virtio
        .map(|name| format!("{name}/net"))
        .chain(["net".to_owned()]);
    let number = |file: &str| {
        tree.read(&tree.function(&address, file))
            .parse()
            .unwrap_or(0)
    };
    Card {
        interfaces: folders
            .flat_map(|folder| tree.names(&tree.function(&address, &folder)))
            .collect(),
        is_rdma: !tree
            .names(&tree.function(&address, "infiniband"))
            .is_empty(),
        functions: [number("sriov_totalvfs"), number("sriov_numvfs")],
        address,
    }
}

impl Card {
    /// Why the whole card cannot be lent.
    pub(super) fn keeps_whole(&self, tree: &Tree) -> Option<String> {
        let address = &self.address;
        let routed = self.in_use(tree);
        routed.or_else(|| match tree.link(&tree.function(address, "iommu_group")) {
            None => Some(format!("{address} is in no IOMMU group")),
            Some(group) => neighbours(tree, &group, address),
        })
    }

    /// Why it cannot provide `wanted` functions for guests.
    pub(super) fn keeps_functions(&self, tree: &Tree, wanted: usize) -> Option<String> {
        let address = &self.address;
        let [possible, present] = self.functions;
        if (possible as usize) < wanted {
            return Some(format!(
                "{address} offers {possible} virtual functions (SR-IOV), and {wanted} are needed"
            ));
        }
        if present > 0 {
            return Some(format!(
                "{address} has {present} virtual functions already, which somebody may use"
            ));
        }
        let down = |name: &&String| {
            let flags = tree.read(&tree.path(&format!("sys/class/net/{name}/flags")));
            let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16);
            flags.is_ok_and(|flags| flags & UP == 0)
        };
        let down = self.interfaces.iter().find(down);
        self.in_use(tree).or_else(|| {
            down.map(|name| format!("{name} of {address} is down, and its virtual functions with it (ip link set {name} up)"))
        })
    }

    /// Describes how the host's network depends on the card, if it does.
    fn in_use(&self, tree: &Tree) -> Option<String> {
        let routes = tree.read(&tree.path("proc/net/route"));
        let routes: Vec<(&str, &str)> = routes
            .lines()
            .skip(1)
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                Some((words.next()?, words.next()?))
            })
            .filter(|(name, _)| self.interfaces.iter().any(|own| own == name))
            .collect();
        let (name, _) = routes.first()?;
        let what = match routes
            .iter()
            .any(|(_, destination)| *destination == ANYWHERE)
        {
            true => "the default route",
            false => "routes",
        };
        Some(format!(
            "{name} of {} carries {what} of this machine",
            self.address
        ))
    }
}

/// Another device that shares an IOMMU group, and so would have to be lent too.
fn neighbours(tree: &Tree, group: &str, own: &PciAddress) -> Option<String> {
    let names = tree.names(&tree.path(&format!("sys/kernel/iommu_groups/{group}/devices")));
    let others = names.into_iter().map(PciAddress::new);
    let other = others.filter(|other| other != own).find(|other| {
        let is_bridge = tree
            .read(&tree.function(other, "class"))
            .starts_with(BRIDGE_CLASS);
        !is_bridge && tree.driver(other).as_deref() != Some(LENDER)
    })?;
    Some(format!("{own} shares its IOMMU group {group} with {other}"))
}
