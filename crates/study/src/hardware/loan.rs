//! Functions that are lent to guests. In every case the host gets them back when a loan is dropped.
//!
//! ```text
//!   Virtual:  numvfs 0 --create--> virtfn0, virtfn1 ------------------------------drop--> numvfs 0
//!   Loan:     host's driver --override, unbind, probe--> vfio-pci --unbind, no override, probe--> host's driver
//! ```

use anyhow::{Result, ensure};

use super::tree::{PciAddress, Tree};

/// The driver that lends functions to guests.
pub(super) const LENDER: &str = "vfio-pci";

/// A function that is lent to guests.
#[derive(Debug)]
pub(super) struct Loan {
    tree: Tree,
    address: PciAddress,
    /// The host's driver.
    driver: Option<String>,
}

impl Loan {
    /// Takes the function from the host.
    ///
    /// # Errors
    /// When the kernel refuses; the host then has it back.
    pub(super) fn take(tree: &Tree, address: &PciAddress) -> Result<Self> {
        let loan = Self {
            tree: tree.clone(),
            address: address.clone(),
            driver: tree.driver(address),
        };
        tree.write(&tree.function(address, "driver_override"), LENDER)?;
        loan.rebind()?;
        let driver = tree.driver(address);
        ensure!(
            driver.as_deref() == Some(LENDER),
            "{address} could not be bound to {LENDER}; its driver is {}",
            driver.as_deref().unwrap_or("none")
        );
        Ok(loan)
    }

    /// The address, for `host=` of QEMU's `vfio-pci`.
    #[must_use]
    pub(super) fn address(&self) -> &PciAddress {
        &self.address
    }

    /// Unbinds the function from its present driver and lets the kernel find one.
    fn rebind(&self) -> Result<()> {
        let (tree, address) = (&self.tree, &self.address);
        if tree.driver(address).is_some() {
            let unbind = tree.function(address, "driver/unbind");
            tree.write(&unbind, &address.to_string())?;
        }
        tree.write(
            &tree.path("sys/bus/pci/drivers_probe"),
            &address.to_string(),
        )
    }

    fn give_back(&self) -> Result<()> {
        let (tree, address) = (&self.tree, &self.address);
        tree.write(&tree.function(address, "driver_override"), "\n")?;
        match self.driver {
            Some(_) => self.rebind(),
            // The host had not used it.
            None if tree.driver(address).is_some() => {
                let unbind = tree.function(address, "driver/unbind");
                tree.write(&unbind, &address.to_string())
            }
            None => Ok(()),
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Err(error) = self.give_back() {
            let driver = self.driver.as_deref().unwrap_or("none");
            eprintln!(
                "{} did not come back to its driver ({driver}): {error:#}",
                self.address
            );
        }
    }
}

/// Virtual functions of a card, which the host's drivers leave alone.
#[derive(Debug)]
pub(super) struct Virtual {
    tree: Tree,
    card: PciAddress,
    autoprobe: String,
}

impl Virtual {
    /// Makes `count` virtual functions.
    ///
    /// # Errors
    /// When the kernel refuses, or makes fewer; then none are left.
    pub(super) fn create(tree: &Tree, card: &PciAddress, count: usize) -> Result<Self> {
        let autoprobe = tree.function(card, "sriov_drivers_autoprobe");
        let functions = Self {
            tree: tree.clone(),
            card: card.clone(),
            autoprobe: tree.read(&autoprobe),
        };
        tree.write(&autoprobe, "0")?;
        tree.write(&tree.function(card, "sriov_numvfs"), &count.to_string())?;
        let made = functions.addresses().len();
        ensure!(
            made == count,
            "{card} made {made} virtual functions of {count}"
        );
        Ok(functions)
    }

    /// The addresses of the functions, in order.
    #[must_use]
    pub(super) fn addresses(&self) -> Vec<PciAddress> {
        let link = |index: usize| {
            let path = self.tree.function(&self.card, &format!("virtfn{index}"));
            self.tree.link(&path).map(PciAddress::new)
        };
        (0..).map_while(link).collect()
    }
}

impl Drop for Virtual {
    fn drop(&mut self) {
        let (tree, card) = (&self.tree, &self.card);
        let gone = tree.write(&tree.function(card, "sriov_numvfs"), "0");
        let probed = tree.write(
            &tree.function(card, "sriov_drivers_autoprobe"),
            &self.autoprobe,
        );
        if let Err(error) = gone.and(probed) {
            eprintln!("{card} keeps its virtual functions: {error:#}");
        }
    }
}
