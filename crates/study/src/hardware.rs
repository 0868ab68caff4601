//! What this machine's hardware allows of the options that need an adapter or an IOMMU.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// An option of the slides of 2012 that hardware decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HardwareOption {
    /// A: a whole RDMA adapter in the guest.
    Passthrough,
    /// B: a virtual function of an RDMA adapter.
    VirtualFunction,
    /// C: software RoCE over an Ethernet card that is the guest's own.
    SoftRocePassthrough,
}

/// PCI class 02 is network, 0207 InfiniBand; RDMA adapters of Ethernet are 0200 too.
const NETWORK_CLASS: &str = "0x02";

/// Its solver of the cavity.
const OPENFOAM: &str = "icoFoam";

/// Where Linux tells.
#[derive(Debug, Clone)]
pub struct Hardware {
    sys: PathBuf,
}

impl Default for Hardware {
    fn default() -> Self {
        Self::at("/sys")
    }
}

impl Hardware {
    /// A sysfs elsewhere.
    #[must_use]
    pub fn at(sys: impl Into<PathBuf>) -> Self {
        Self { sys: sys.into() }
    }

    /// Why the option cannot be measured here, as one sentence.
    #[must_use]
    pub fn obstacle(&self, option: HardwareOption) -> String {
        let cards = self.network_cards();
        if cards.is_empty() {
            return "this machine has no network card on PCI that a guest could be given"
                .to_owned();
        }
        let names = cards.join(", ");
        if names_in(&self.sys.join("kernel/iommu_groups")).is_empty() {
            return format!(
                "this machine has no IOMMU switched on, without which {names} cannot be given to a guest (intel_iommu=on or amd_iommu=on)"
            );
        }
        let rdma = names_in(&self.sys.join("class/infiniband"));
        match option {
            HardwareOption::SoftRocePassthrough => not_automated(&names),
            _ if rdma.is_empty() => {
                format!("no network card of this machine ({names}) is an RDMA adapter")
            }
            HardwareOption::Passthrough => not_automated(&rdma.join(", ")),
            HardwareOption::VirtualFunction => match self.with_functions(&cards) {
                Some(card) => not_automated(&card),
                None => format!(
                    "no network card of this machine ({names}) offers virtual functions (SR-IOV)"
                ),
            },
        }
    }

    /// Why OpenFOAM with so many ranks cannot run here, as one sentence.
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

    fn network_cards(&self) -> Vec<String> {
        let devices = self.sys.join("bus/pci/devices");
        let is_card =
            |name: &String| read(&devices.join(name).join("class")).starts_with(NETWORK_CLASS);
        names_in(&devices).into_iter().filter(is_card).collect()
    }

    fn with_functions(&self, cards: &[String]) -> Option<String> {
        let total = |card: &String| {
            read(
                &self
                    .sys
                    .join("bus/pci/devices")
                    .join(card)
                    .join("sriov_totalvfs"),
            )
        };
        let found = cards
            .iter()
            .find(|card| total(card).parse::<u32>().is_ok_and(|total| total > 0));
        found.cloned()
    }
}

fn not_automated(device: &str) -> String {
    format!("{device} would do, but binding it to a guest is not automated yet")
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn read(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_too_small_says_how_small_it_is() {
        let hardware = Hardware::at("/nonexistent");
        let sentence = hardware.too_small(40, 2);
        assert_eq!(sentence, "40 ranks need 40 cores, and this machine has 2");
        assert!(hardware.too_small(2, 2).contains("OpenFOAM"));
    }

    fn file(root: &Path, path: &str, contents: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    #[test]
    fn each_obstacle_is_named_in_its_turn() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let says = |option| Hardware::at(root).obstacle(option);
        assert!(says(HardwareOption::Passthrough).contains("no network card"));
        file(root, "bus/pci/devices/0000:01:00.0/class", "0x020000\n");
        file(root, "bus/pci/devices/0000:00:00.0/class", "0x060000\n");
        assert!(says(HardwareOption::Passthrough).contains("no IOMMU"));
        file(root, "kernel/iommu_groups/3/type", "DMA");
        assert!(says(HardwareOption::Passthrough).contains("RDMA adapter"));
        assert!(says(HardwareOption::SoftRocePassthrough).contains("0000:01:00.0 would do"));
        file(root, "class/infiniband/mlx5_0/node_type", "1: CA");
        assert!(says(HardwareOption::Passthrough).contains("mlx5_0 would do"));
        assert!(says(HardwareOption::VirtualFunction).contains("SR-IOV"));
        file(root, "bus/pci/devices/0000:01:00.0/sriov_totalvfs", "8");
        assert!(says(HardwareOption::VirtualFunction).contains("0000:01:00.0 would do"));
    }
}
