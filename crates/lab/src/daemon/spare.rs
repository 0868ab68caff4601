//! A second daemon on a host, as a migration's destination that may end.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use super::configuration::{configuration, spare_migration, write_key};
use super::{Adapter, Daemon, PORTGROUP};
use crate::namespace::Entry;
use crate::process::Lifetime;

impl Daemon {
    /// Starts it on a host of a wire, beside that host's daemon and without an uplink; it accepts adapters at `listen`.
    ///
    /// # Errors
    /// As [`Daemon::start`].
    pub fn start_spare(
        host: &Entry,
        listen: SocketAddr,
        program: &Path,
        run_dir: &Path,
        adapters: &[Adapter],
        lifetime: Lifetime,
    ) -> Result<Self> {
        write_key(run_dir)?;
        let alone = configuration(run_dir, &[(PORTGROUP, adapters)], None, None)?;
        let configuration = alone + "\n" + &spare_migration(listen, run_dir)?;
        Self::launch(program, run_dir, &configuration, Some(host), lifetime)
    }
}
