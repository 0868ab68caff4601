//! This host's OpenFOAM for guests, whose image has none: programs and their own libraries, at the same paths.
//!
//! Libraries of the system, including Open MPI, are the guest's; its C library is not older than the host's, and its
//! Open MPI has the same soname.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use vrdma_lab::guest::Guest;

/// The programs for mesh, its decomposition, and solving.
const PROGRAMS: [&str; 3] = ["blockMesh", "decomposePar", "icoFoam"];

/// Files of OpenFOAM's folder that they read.
const SETTINGS: [&str; 2] = [
    "/usr/share/openfoam/etc/cellModels",
    "/usr/share/openfoam/etc/controlDict",
];

/// Part of the paths of system libraries, whose folders are named after the machine.
const SYSTEM: &str = "-linux-gnu/";

/// Makes a compressed archive of about 27 MB.
pub(super) fn bundle() -> Result<Vec<u8>> {
    let mut files = BTreeSet::from(SETTINGS.map(PathBuf::from));
    for program in PROGRAMS {
        let program = installed(program)?;
        files.extend(own_libraries(&program)?);
        files.insert(program);
    }
    let mut tar = Command::new("tar");
    tar.args(["-c", "-z", "-h", "-P", "--to-stdout"])
        .args(&files);
    let output = tar.output().context("cannot start tar")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "OpenFOAM cannot be packed: {}",
        words.trim()
    );
    Ok(output.stdout)
}

/// Unpacks the files at their paths on the host.
pub(super) fn install(guest: &Guest, bundle: &[u8]) -> Result<()> {
    guest.put("/root/openfoam.tgz", "644", bundle)?;
    guest.check("tar -x -z -P -f /root/openfoam.tgz && rm /root/openfoam.tgz")?;
    Ok(())
}

fn installed(program: &str) -> Result<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join(program));
    found
        .into_iter()
        .find(|path| path.is_file())
        .with_context(|| format!("{program} is missing: install the package openfoam"))
}

fn own_libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .context("cannot start ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && !text.contains("not found"),
        "{} lacks libraries:\n{text}",
        program.display()
    );
    Ok(libraries(&text))
}

/// Parses lines such as `libOpenFOAM.so => /lib/libOpenFOAM.so (0x00007f85c9200000)`.
fn libraries(text: &str) -> Vec<PathBuf> {
    let paths = text
        .lines()
        .filter_map(|line| line.split_once("=> "))
        .filter_map(|(_, rest)| rest.split_whitespace().next());
    let own = paths.filter(|path| path.starts_with('/') && !path.contains(SYSTEM));
    own.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_system_stay_where_they_are() {
        let text = "\tlinux-vdso.so.1 (0x00007f85cce2c000)\n\
             \tlibOpenFOAM.so => /lib/libOpenFOAM.so (0x00007f85c9200000)\n\
             \tlibmpi.so.40 => /lib/x86_64-linux-gnu/libmpi.so.40 (0x00007f85c88c1000)\n\
             \t/lib64/ld-linux-x86-64.so.2 (0x00007f85cce2e000)\n";
        assert_eq!(libraries(text), [PathBuf::from("/lib/libOpenFOAM.so")]);
    }
}
