//! Which transports that need an adapter or an IOMMU this machine's hardware permits, and how guests get that hardware.
//!
//! ```text
//!   offer(transport) --a sentence--> the cell's reason
//!                    --Offer--> lend: virtual functions, vfio-pci --> guests --dropped--> as it was before
//! ```
//!
//! No function is taken that the host's network depends on, or that shares an IOMMU group with something else. Whether
//! the two functions reach each other is up to the installer: virtual functions of one card do.

mod card;
mod loan;
mod offer;
mod tree;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{env, fs};

use anyhow::{Result, anyhow, bail};

use crate::cell::Transport;
use card::{Card, cards};
use loan::LENDER;
pub use offer::{Lease, Offer};
pub use tree::{Kernel, PciAddress, Running, Tree};

/// OpenFOAM's solver of the cavity.
const OPENFOAM: &str = "icoFoam";

/// The files in which Linux describes the hardware.
#[derive(Debug, Clone)]
pub struct Hardware {
    tree: Tree,
    is_root: bool,
}

impl Default for Hardware {
    fn default() -> Self {
        let own = fs::metadata("/proc/self");
        Self::at(Tree::new("/", Running), own.is_ok_and(|own| own.uid() == 0))
    }
}

impl Hardware {
    /// The hardware described below another root, seen by root or by an ordinary user.
    #[must_use]
    pub fn at(tree: Tree, is_root: bool) -> Self {
        Self { tree, is_root }
    }

    /// Why the transport cannot be measured here, as one sentence; `None` when it can.
    #[must_use]
    pub fn obstacle(&self, transport: Transport) -> Option<String> {
        match transport {
            Transport::Vrdma | Transport::Rxe | Transport::Tcp => None,
            Transport::Hca => self.rdma_device().err(),
            Transport::Passthrough | Transport::Sriov | Transport::RxeSriov => {
                self.offer(transport).err()
            }
        }
    }

    /// The host's own RDMA adapter, if it is hardware: rxe and the like belong to no PCI function.
    fn rdma_device(&self) -> Result<String, String> {
        let folder = self.tree.path("sys/class/infiniband");
        let names = self.tree.names(&folder);
        let found = names
            .into_iter()
            .find(|name| self.tree.link(&folder.join(name).join("device")).is_some());
        found.ok_or_else(|| "this machine has no RDMA adapter".to_owned())
    }

    /// The functions that could be lent to two guests, or the reason why none can.
    ///
    /// # Errors
    /// With the reason, as one sentence.
    pub fn offer(&self, transport: Transport) -> Result<Offer, String> {
        let tree = &self.tree;
        let all = cards(tree);
        if all.is_empty() {
            return Err(
                "this machine has no network card on PCI that a guest could be given".to_owned(),
            );
        }
        let names = listed(&all);
        if tree.names(&tree.path("sys/kernel/iommu_groups")).is_empty() {
            return Err(format!(
                "this machine has no IOMMU switched on, without which {names} cannot be given to a guest (intel_iommu=on or amd_iommu=on)"
            ));
        }
        let rdma: Vec<Card> = all.iter().filter(|card| card.is_rdma).cloned().collect();
        let needs_rdma = transport != Transport::RxeSriov;
        if needs_rdma && rdma.is_empty() {
            return Err(format!(
                "no network card of this machine ({names}) is an RDMA adapter"
            ));
        }
        let offer = match transport {
            Transport::Passthrough => Offer::whole(tree, &rdma)?,
            Transport::Sriov => Offer::functions(tree, &rdma)?,
            _ => Offer::functions(tree, &all).or_else(|functions| {
                Offer::whole(tree, &all).map_err(|whole| format!("{functions}; {whole}"))
            })?,
        };
        self.allowed(offer)
    }

    fn allowed(&self, offer: Offer) -> Result<Offer, String> {
        if !self.is_root {
            return Err("only root may give a network card to a guest".to_owned());
        }
        let driver = self.tree.path("sys/bus/pci/drivers").join(LENDER);
        if !driver.is_dir() {
            return Err(format!(
                "the driver {LENDER} is not loaded (modprobe {LENDER})"
            ));
        }
        Ok(offer)
    }

    /// Lends two guests the offered functions; the host gets them back when the lease is dropped.
    ///
    /// # Errors
    /// When there is nothing to lend, or the kernel refuses.
    pub fn lend(&self, transport: Transport) -> Result<Lease> {
        let offer = self.offer(transport).map_err(|reason| anyhow!(reason))?;
        offer.take(&self.tree)
    }

    /// Checks that guests whose modules are in a folder have a driver for a function.
    ///
    /// # Errors
    /// When they have none.
    pub fn guests_drive(&self, address: &PciAddress, modules: &Path) -> Result<()> {
        let alias = self.tree.read(&self.tree.function(address, "modalias"));
        let list = self.tree.read(&modules.join("modules.alias"));
        let mut patterns = list
            .lines()
            .filter_map(|line| line.strip_prefix("alias ")?.split_whitespace().next());
        if patterns.any(|pattern| matches(pattern, &alias)) {
            return Ok(());
        }
        bail!("the guests' kernel has no driver for {address} ({alias})")
    }

    /// Why OpenFOAM with this number of ranks cannot run here, as one sentence.
    #[must_use]
    pub fn too_small(&self, ranks: u32, cores: usize) -> String {
        let installed = env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .any(|folder| folder.join(OPENFOAM).is_file());
        if (cores as u64) < u64::from(ranks) {
            return format!("{ranks} ranks need {ranks} cores, and this machine has {cores}");
        }
        if installed {
            return format!(
                "OpenFOAM with {ranks} ranks in guests is not automated; `cavity-small` is"
            );
        }
        "OpenFOAM is missing: install the package openfoam".to_owned()
    }
}

fn listed(cards: &[Card]) -> String {
    let names: Vec<String> = cards.iter().map(|card| card.address.to_string()).collect();
    names.join(", ")
}

/// Whether an alias matches a module's pattern, in which a star stands for anything.
fn matches(pattern: &str, alias: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = alias.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    rest.is_empty() || last == Some("")
}

#[cfg(test)]
mod tests;
