//! Programs of the checkout that run in any guest: linked statically, since the guest's C library may be older than the
//! host's.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A profile of cargo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Compiles fast.
    Dev,
    /// Makes a fast and small program.
    Release,
}

/// Builds a program of a package from the checkout; `options` are further ones of `cargo build`.
///
/// # Errors
/// When there is no cargo, no checkout, or it does not compile.
pub fn link(package: &str, program: &str, profile: Profile, options: &[&str]) -> Result<PathBuf> {
    // In a separate target folder, so that neither these flags nor another cargo's lock affect the checkout's main one.
    let folder = workspace().join("target/lab-agent");
    let (name, subfolder) = match profile {
        Profile::Dev => ("dev", "debug"),
        Profile::Release => ("release", "release"),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(workspace()).args(["build", "--quiet"]);
    build.args(["--package", package, "--bin", program]);
    build.args(["--profile", name, "--target", TARGET, "--target-dir"]);
    build.arg(&folder).args(options);
    let output = build
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .output()
        .with_context(|| format!("cannot start cargo to compile {program} for guests"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program} does not compile for guests:\n{words}"
    );
    Ok(folder.join(TARGET).join(subfolder).join(program))
}

/// The checkout's folder when this was compiled.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
