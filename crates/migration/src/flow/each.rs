//! Steps that are done with each adapter of the VM, one after the other.
//!
//! All are frozen before the first is restored, and restored in the order in which they were frozen: a page that two of
//! them wrote is in both contexts, and the later one has all of it.

use vrdma_api::{
    ArrivedContext, FreezeRequest, HandOverRequest, HandedOverContext, MSIX_TABLE_WORDS,
    RestoreRequest,
};

use super::{Failed, Flow};
use crate::adapter::{AdapterHandle, NotReleased};
use crate::error::Cause;
use crate::machine::Function;
use crate::pci::{Address, ConfigSpace};
use crate::progress::Phase;

/// Most bytes of written pages that go in the adapters' contexts, beside what QEMU sends. More is sent with the rest of
/// the memory, which is faster and held by nobody; but QEMU has to be told of each page first, a few microseconds each.
const CONTEXT_PAGES_BYTES_MAX: u64 = 16 << 20;

/// The only bus whose devices answer before any bridge is configured.
const ROOT_BUS: u8 = 0;

/// The context of a frozen adapter.
pub(super) enum FrozenContext {
    /// This program has it, and is to bring it to the destination.
    Here(Vec<u8>),
    /// The source's daemon has brought it to the destination.
    There(HandedOverContext),
}

/// An adapter whose context is at the destination.
pub(super) struct HandedOver {
    pub(super) bytes: u64,
    pub(super) arrived: ArrivedContext,
    /// PCI address of the adapter in both QEMUs.
    address: Address,
    config: ConfigSpace,
    msix_table: Option<[u32; MSIX_TABLE_WORDS]>,
}

/// An adapter that the source's daemon did not give up, though it gave up others.
pub(super) struct Unreleased {
    pub(super) name: String,
    pub(super) why: Cause,
}

impl Flow<'_> {
    /// Tracks the pages that each adapter writes from here on. Returns the PCI configurations that the guest has made.
    pub(super) fn track_all(&mut self) -> Result<Vec<ConfigSpace>, Cause> {
        let adapters = self.hosts().source.adapters.iter();
        adapters.map(AdapterHandle::track).collect()
    }

    /// Configures the adapters in the destination's QEMU while the VM runs: later, that would lengthen its pause.
    /// Adapters behind a bridge do not answer before QEMU has loaded the bridge; and of several, it may not be known
    /// yet which one a configuration is of.
    pub(super) fn configure_ahead(&mut self, tracked: Vec<ConfigSpace>) -> Result<(), Cause> {
        self.begin(Phase::Configure)?;
        for config in tracked {
            let address = address_of(&self.transfer.functions, &config);
            let ahead = match address.filter(|address| address.bus == ROOT_BUS) {
                Some(address) => {
                    let machine = &mut self.hosts().destination.machine;
                    machine.configure(address, &config)?;
                    Some(config)
                }
                None => None,
            };
            self.configured.push(ahead);
        }
        Ok(())
    }

    /// Whether the adapters have written more than is to go in their contexts.
    pub(super) fn have_written_much(&mut self) -> Result<bool, Cause> {
        let adapters = self.hosts().source.adapters.iter();
        let written: Result<u64, Cause> = adapters.map(AdapterHandle::written).sum();
        written.map(|bytes| bytes > CONTEXT_PAGES_BYTES_MAX)
    }

    /// Stops all adapters, and returns their contexts.
    pub(super) fn freeze(&mut self) -> Result<Vec<FrozenContext>, Cause> {
        self.freeze_as(FreezeRequest::default())
    }

    /// The same, but QEMU sends what the adapters have written. All stand still before QEMU is told of any page.
    pub(super) fn freeze_and_resend(&mut self) -> Result<Vec<FrozenContext>, Cause> {
        let contexts = self.freeze_as(FreezeRequest { leaves_pages: true })?;
        self.begin(Phase::Resend)?;
        let adapters = self.hosts().source.adapters.iter();
        let resent: Result<u64, Cause> = adapters.map(AdapterHandle::resend).sum();
        self.resent_bytes = resent?;
        Ok(contexts)
    }

    fn freeze_as(&mut self, request: FreezeRequest) -> Result<Vec<FrozenContext>, Cause> {
        self.undo.frozen = true;
        let destinations = &self.transfer.destinations;
        let adapters = self.transfer.hosts.source.adapters.iter().enumerate();
        let contexts = adapters.map(|(at, adapter)| match destinations.get(at) {
            None => adapter.freeze(request).map(FrozenContext::Here),
            Some(to) => {
                let request = HandOverRequest {
                    to: *to,
                    leaves_pages: request.leaves_pages,
                };
                adapter.hand_over(request).map(FrozenContext::There)
            }
        });
        contexts.collect()
    }

    pub(super) fn hand_over(
        &mut self,
        contexts: Vec<FrozenContext>,
    ) -> Result<Vec<HandedOver>, Cause> {
        self.undo.context = true;
        let each = contexts.into_iter().enumerate();
        each.map(|(at, context)| self.hand_over_one(at, context))
            .collect()
    }

    fn hand_over_one(&mut self, at: usize, context: FrozenContext) -> Result<HandedOver, Cause> {
        match context {
            FrozenContext::Here(context) => {
                let bytes = context.len() as u64;
                let adapter = &self.hosts().destination.adapters[at];
                let arrived = adapter.put_context(context)?;
                self.describe(at, bytes, arrived)
            }
            FrozenContext::There(HandedOverContext { bytes, arrived }) => {
                self.describe(at, bytes, arrived)
            }
        }
    }

    /// Finds the contexts that an earlier orchestrator had handed over; their lengths are not known.
    pub(super) fn find_handed_over(&mut self) -> Result<Vec<HandedOver>, Cause> {
        self.transfer.functions = self.hosts().source.machine.adapters()?;
        let adapters = self.hosts().destination.adapters.iter();
        let arrived: Result<Vec<_>, Cause> = adapters.map(AdapterHandle::arrived).collect();
        let each = arrived?.into_iter().enumerate();
        each.map(|(at, arrived)| self.describe(at, 0, arrived))
            .collect()
    }

    /// Adds the rest of what an adapter needs whose context has arrived.
    fn describe(
        &mut self,
        at: usize,
        bytes: u64,
        arrived: ArrivedContext,
    ) -> Result<HandedOver, Cause> {
        let adapter = &self.hosts().destination.adapters[at];
        let config = adapter.parse_config(&arrived.config_space)?;
        let address = address_of(&self.transfer.functions, &config).ok_or_else(|| {
            Cause::new(format!(
                "the source's QEMU has several adapters, and which of them is {} cannot be told: its guest has given it no address of its own; load the guest's driver first",
                self.transfer.options.adapters[at]
            ))
        })?;
        let source = &mut self.hosts().source.machine;
        let table = config.msix_table().map(|it| source.msix_table(it));
        Ok(HandedOver {
            bytes,
            arrived,
            address,
            msix_table: table.transpose()?,
            config,
        })
    }

    /// Configures the adapters that were not configured ahead, or that the guest has configured again since.
    pub(super) fn configure(&mut self, all: &[HandedOver]) -> Result<(), Cause> {
        let ahead = std::mem::take(&mut self.configured);
        let changed = all.iter().zip(ahead);
        let changed = changed.filter(|(one, ahead)| ahead.as_ref() != Some(&one.config));
        for (one, _) in changed {
            self.begin(Phase::Configure)?;
            let machine = &mut self.hosts().destination.machine;
            machine.configure(one.address, &one.config)?;
        }
        Ok(())
    }

    pub(super) fn restore(
        &mut self,
        all: &[HandedOver],
        memory_follows: bool,
    ) -> Result<(), Cause> {
        let adapters = self.hosts().destination.adapters.iter();
        let mut left = adapters.zip(all).filter(|(_, one)| !one.arrived.restored);
        left.try_for_each(|(adapter, one)| {
            adapter.restore(&RestoreRequest {
                msix_table: one.msix_table,
                end_connections: false,
                memory_follows,
            })
        })
    }

    /// Checks that all restored adapters still wait to be activated.
    pub(super) fn check_restored(&mut self) -> Result<(), Cause> {
        let adapters = &self.hosts().destination.adapters;
        adapters.iter().try_for_each(AdapterHandle::check_restored)
    }

    /// Releases all adapters. The first release is the point of no return; later failures are reported once the VM
    /// runs.
    pub(super) fn release_all(&mut self) -> Result<Vec<Unreleased>, Failed> {
        let mut unreleased = Vec::new();
        for (at, adapter) in self.hosts().source.adapters.iter().enumerate() {
            let why = match adapter.release() {
                Ok(()) => continue,
                Err(NotReleased::Surely(why)) if at == 0 => return Err(Failed::Before(why)),
                Err(NotReleased::Perhaps(why)) if at == 0 => return Err(Failed::Unsure(why)),
                Err(NotReleased::Surely(why) | NotReleased::Perhaps(why)) => why,
            };
            let name = adapter.name().to_string();
            unreleased.push(Unreleased { name, why });
        }
        Ok(unreleased)
    }

    pub(super) fn activate(&mut self) -> Result<(), Cause> {
        let adapters = &self.hosts().destination.adapters;
        adapters.iter().try_for_each(AdapterHandle::activate)
    }
}

/// Returns the address of the adapter; of several, the one whose guest has its MSI-X table where the configuration
/// says.
fn address_of(functions: &[Function], config: &ConfigSpace) -> Option<Address> {
    if let [only] = functions {
        return Some(only.address);
    }
    let table = Some(u64::from(config.bar_0()));
    let mut same = functions.iter().filter(|it| it.table == table);
    let found = same.next()?;
    same.next().is_none().then_some(found.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::tests::config_space;

    #[test]
    fn an_adapter_of_several_is_known_by_its_bar() {
        let config = ConfigSpace::from_bytes(&config_space()).unwrap();
        let function = |slot, table| Function {
            address: Address {
                bus: 0,
                slot,
                function: 1,
            },
            table,
        };
        let slot_of = |functions: &[Function]| address_of(functions, &config).map(|it| it.slot);
        let own = Some(0xfebd_4000);
        assert_eq!(slot_of(&[function(5, None)]), Some(5));
        let other = function(5, Some(0xfebd_0000));
        assert_eq!(slot_of(&[other, function(6, own)]), Some(6));
        assert_eq!(slot_of(&[other, function(6, None)]), None);
        assert_eq!(slot_of(&[function(5, own), function(6, own)]), None);
    }
}
