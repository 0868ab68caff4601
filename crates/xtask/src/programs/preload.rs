//! Programs that load the checkout's verbs library in front of theirs.

use std::env;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use vrdma_lab::namespace::Entry;
use vrdma_lab::pair::Side;
use vrdma_lab::place::Preload;
use vrdma_lab::wire;

/// Names the verbs library to load instead.
const LIBRARY_VARIABLE: &str = "VRDMA_LIBRARY";

/// The library built from the checkout as it is now, unless the environment names one.
///
/// # Errors
/// When it does not build.
pub(crate) fn library() -> Result<PathBuf> {
    match env::var_os(LIBRARY_VARIABLE) {
        Some(path) => Ok(path.into()),
        None => crate::library::link(true),
    }
}

/// The environment of programs on a host of a wire, with the adapter that is named like the side.
pub(crate) fn preload(host: &Entry, side: Side, run_dir: &Path, library: &Path) -> Preload {
    let addresses = [Side::A, Side::B].map(wire::address);
    preload_at(host, side, run_dir, library, addresses)
}

/// The same with other addresses for `$A` and `$B`.
pub(super) fn preload_at(
    host: &Entry,
    side: Side,
    run_dir: &Path,
    library: &Path,
    [a, b]: [Ipv4Addr; 2],
) -> Preload {
    let named = [("A", a), ("B", b)];
    Preload {
        host: host.clone(),
        adapter: side.name().to_owned(),
        run_dir: run_dir.to_owned(),
        library: library.to_owned(),
        variables: named
            .map(|(name, address)| (name.to_owned(), address.to_string()))
            .to_vec(),
    }
}
