//! A simulated machine: files as sysfs has them, and a kernel that responds to writes as Linux does.

mod obstacles;

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

const CARD: &str = "0000:01:00.0";
const SECOND: &str = "0000:02:00.0";

/// Binds by `driver_override`, else to the driver in `home`; makes virtual functions; refuses what Linux refuses.
struct MadeUp {
    root: PathBuf,
    /// Whether vfio-pci accepts the functions that it is offered.
    has_lender: bool,
}

impl MadeUp {
    fn devices(&self) -> PathBuf {
        self.root.join("sys/bus/pci/devices")
    }

    fn probe(&self, address: &str) -> io::Result<()> {
        let device = self.devices().join(address);
        let named = fs::read_to_string(device.join("driver_override"))?;
        let home = fs::read_to_string(device.join("home")).unwrap_or_default();
        let driver = match named.trim() {
            "" => home.trim().to_owned(),
            named => named.to_owned(),
        };
        if driver.is_empty() || driver == LENDER && !self.has_lender {
            return Ok(());
        }
        let folder = self.root.join("sys/bus/pci/drivers").join(driver);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("unbind"), "")?;
        symlink(folder, device.join("driver"))
    }

    fn functions(&self, card: &Path, count: usize) -> io::Result<()> {
        for index in 0..2 {
            let address = format!("0000:01:10.{index}");
            let link = card.join(format!("virtfn{index}"));
            if index < count {
                device(&self.root, &address, "0x020000", "");
                symlink(self.devices().join(&address), link)?;
            } else if link.exists() {
                fs::remove_file(link)?;
                fs::remove_dir_all(self.devices().join(address))?;
            }
        }
        Ok(())
    }
}

impl Kernel for MadeUp {
    fn write(&self, file: &Path, text: &str) -> io::Result<()> {
        assert!(file.exists(), "{} is not there", file.display());
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        match name {
            "unbind" => fs::remove_file(self.devices().join(text.trim()).join("driver")),
            "drivers_probe" => self.probe(text.trim()),
            "sriov_numvfs" => {
                fs::write(file, text)?;
                self.functions(file.parent().unwrap(), text.trim().parse().unwrap())
            }
            _ => fs::write(file, text),
        }
    }
}

fn file(root: &Path, path: &str, contents: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
}

/// Makes a device with its driver bound, if it has one.
fn device(root: &Path, address: &str, class: &str, driver: &str) {
    let folder = format!("sys/bus/pci/devices/{address}");
    file(root, &format!("{folder}/class"), &format!("{class}\n"));
    file(root, &format!("{folder}/driver_override"), "\n");
    file(root, &format!("{folder}/home"), driver);
    file(
        root,
        &format!("{folder}/modalias"),
        "pci:v00008086d000010CAsv00000000sd00000000bc02sc00i00\n",
    );
    let group = format!(
        "sys/kernel/iommu_groups/{}/devices/{address}",
        &address[5..7]
    );
    file(root, &group, "");
    symlink(
        root.join(format!("sys/kernel/iommu_groups/{}", &address[5..7])),
        root.join(&folder).join("iommu_group"),
    )
    .unwrap();
    if !driver.is_empty() {
        let home = root.join("sys/bus/pci/drivers").join(driver);
        file(&home, "unbind", "");
        symlink(home, root.join(&folder).join("driver")).unwrap();
    }
}

/// A machine with two cards that support everything.
struct Scene {
    folder: TempDir,
    is_root: bool,
    has_lender: bool,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        file(root, "sys/bus/pci/drivers_probe", "");
        file(root, "sys/bus/pci/drivers/vfio-pci/unbind", "");
        file(root, "proc/net/route", "Iface Destination\n");
        device(root, "0000:00:00.0", "0x060000", "");
        for (index, card) in [CARD, SECOND].into_iter().enumerate() {
            device(root, card, "0x020000", "mlx5_core");
            let folder = format!("sys/bus/pci/devices/{card}");
            file(root, &format!("{folder}/net/eth{index}/mtu"), "1500");
            file(
                root,
                &format!("{folder}/infiniband/mlx5_{index}/node_type"),
                "1: CA",
            );
            file(root, &format!("sys/class/net/eth{index}/flags"), "0x1003\n");
        }
        let first = format!("sys/bus/pci/devices/{CARD}");
        file(root, &format!("{first}/sriov_totalvfs"), "8\n");
        file(root, &format!("{first}/sriov_numvfs"), "0\n");
        file(root, &format!("{first}/sriov_drivers_autoprobe"), "1\n");
        Self {
            folder,
            is_root: true,
            has_lender: true,
        }
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn hardware(&self) -> Hardware {
        let kernel = MadeUp {
            root: self.root().to_owned(),
            has_lender: self.has_lender,
        };
        Hardware::at(Tree::new(self.root(), kernel), self.is_root)
    }

    fn says(&self, transport: Transport) -> String {
        self.hardware().obstacle(transport).unwrap_or_default()
    }

    fn driver(&self, address: &str) -> Option<String> {
        self.hardware().tree.driver(&PciAddress::new(address))
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path))
            .unwrap()
            .trim()
            .to_owned()
    }

    fn remove(&self, path: &str) {
        fs::remove_dir_all(self.root().join(path)).unwrap();
    }
}

#[test]
fn whole_cards_are_lent_and_come_back() {
    let scene = Scene::new();
    let lease = scene.hardware().lend(Transport::Passthrough).unwrap();
    assert_eq!(lease.addresses().map(ToString::to_string), [CARD, SECOND]);
    assert_eq!(scene.driver(CARD).as_deref(), Some(LENDER));
    assert_eq!(scene.driver(SECOND).as_deref(), Some(LENDER));
    drop(lease);
    for card in [CARD, SECOND] {
        assert_eq!(scene.driver(card).as_deref(), Some("mlx5_core"));
        assert_eq!(
            scene.read(&format!("sys/bus/pci/devices/{card}/driver_override")),
            ""
        );
    }
}

#[test]
fn virtual_functions_are_made_lent_and_gone() {
    let scene = Scene::new();
    let card = format!("sys/bus/pci/devices/{CARD}");
    let lease = scene.hardware().lend(Transport::Sriov).unwrap();
    assert_eq!(
        lease.addresses().map(ToString::to_string),
        ["0000:01:10.0", "0000:01:10.1"]
    );
    assert_eq!(scene.driver("0000:01:10.1").as_deref(), Some(LENDER));
    assert_eq!(scene.read(&format!("{card}/sriov_numvfs")), "2");
    assert_eq!(scene.read(&format!("{card}/sriov_drivers_autoprobe")), "0");
    drop(lease);
    assert_eq!(scene.read(&format!("{card}/sriov_numvfs")), "0");
    assert_eq!(scene.read(&format!("{card}/sriov_drivers_autoprobe")), "1");
    assert_eq!(scene.driver(CARD).as_deref(), Some("mlx5_core"));
}

#[test]
fn a_failed_loan_leaves_everything_as_it_was() {
    let scene = Scene {
        has_lender: false,
        ..Scene::new()
    };
    for transport in [Transport::Passthrough, Transport::Sriov] {
        let error = scene.hardware().lend(transport).unwrap_err().to_string();
        assert!(error.contains("could not be bound to vfio-pci"), "{error}");
    }
    assert_eq!(scene.driver(CARD).as_deref(), Some("mlx5_core"));
    assert_eq!(
        scene.read(&format!("sys/bus/pci/devices/{CARD}/driver_override")),
        ""
    );
    assert_eq!(
        scene.read(&format!("sys/bus/pci/devices/{CARD}/sriov_numvfs")),
        "0"
    );
}

#[test]
fn guests_must_have_a_driver() {
    let scene = Scene::new();
    let (hardware, card) = (scene.hardware(), PciAddress::new(CARD));
    let modules = scene.root().join("modules");
    file(
        scene.root(),
        "modules/modules.alias",
        "# x\nalias pci:v00008086d000010CBsv*sd*bc*sc*i* other\n",
    );
    assert!(hardware.guests_drive(&card, &modules).is_err());
    file(
        scene.root(),
        "modules/modules.alias",
        "alias pci:v00008086d000010CAsv*sd*bc*sc*i* igbvf\n",
    );
    hardware.guests_drive(&card, &modules).unwrap();
}

#[test]
fn a_machine_that_is_too_small_says_how_small_it_is() {
    let hardware = Hardware::default();
    let sentence = hardware.too_small(40, 2);
    assert_eq!(sentence, "40 ranks need 40 cores, and this machine has 2");
    assert!(hardware.too_small(2, 2).contains("OpenFOAM"));
}

/// Lends every function of a real machine and takes it back; QEMU's igb in a guest with an IOMMU is such a machine.
#[test]
#[ignore = "needs root, an IOMMU, vfio-pci and a network card with virtual functions that carries no route"]
fn a_real_card_is_lent_and_comes_back() {
    let hardware = Hardware::default();
    let offer = hardware.offer(Transport::RxeSriov).unwrap();
    let Offer::Functions(card) = offer else {
        panic!("{offer:?} are no virtual functions");
    };
    let tree = Tree::new("/", Running);
    let number = || tree.read(&tree.function(&card, "sriov_numvfs"));
    let before = tree.driver(&card);
    let lease = hardware.lend(Transport::RxeSriov).unwrap();
    assert_eq!(number(), "2");
    for address in lease.addresses() {
        assert_eq!(tree.driver(address).as_deref(), Some(LENDER));
        let group = tree.link(&tree.function(address, "iommu_group")).unwrap();
        assert!(
            Path::new("/dev/vfio").join(&group).exists(),
            "group {group}"
        );
        println!("{address} is in group {group}");
    }
    drop(lease);
    assert_eq!(number(), "0");
    assert_eq!(tree.driver(&card), before);
}
