//! One guest with one program.

use vrdma_driver::object::{Context, Pd};
use vrdma_driver::{CommandError, Fabric, Guest};
use vrdma_pvrdma::{DeviceConfig, DeviceLimits};

/// A guest, a program in it and its protection domain.
pub(crate) struct Single {
    pub(crate) fabric: Fabric,
    pub(crate) context: Context,
    pub(crate) pd: Pd,
}

impl Single {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn trapped() -> Self {
        Self::with(|config| config.maps_doorbells = false)
    }

    pub(crate) fn with(change: impl FnOnce(&mut DeviceConfig)) -> Self {
        let mut config = DeviceConfig::new(Fabric::identity(1));
        change(&mut config);
        let mut fabric = Fabric::new();
        let guest = fabric.add_with(config);
        let context = fabric[guest].open().unwrap();
        let pd = fabric[guest].create_pd(context).unwrap();
        Self {
            fabric,
            context,
            pd,
        }
    }

    pub(crate) fn vm(&mut self) -> &mut Guest {
        &mut self.fabric[0]
    }

    pub(crate) fn limits(&mut self) -> DeviceLimits {
        self.vm().device.config().limits
    }
}

/// Checks that the device refuses, with any error.
pub(crate) fn assert_refused<T: std::fmt::Debug>(result: Result<T, CommandError>) {
    assert!(
        matches!(result, Err(CommandError::Refused(_))),
        "{result:?}"
    );
}

/// A device without a driver.
pub(crate) fn bare() -> Fabric {
    let mut fabric = Fabric::new();
    fabric
        .add_bare(DeviceConfig::new(Fabric::identity(1)))
        .unwrap();
    fabric
}
