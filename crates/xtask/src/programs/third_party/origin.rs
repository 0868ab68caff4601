//! Sources of programs, and the versions that were obtained.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use vrdma_lab::image::{Built, Root, Sources};

use super::crates;

/// A name in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A package of Debian.
    Debian(&'static str),
    /// Built from a source package of Debian.
    Source(&'static str),
    /// The tests of a library in Cargo's registry.
    Crate(&'static str),
    /// A wheel on PyPI.
    Python(&'static str),
    /// A wheel on PyPI that has libraries besides its Python code.
    PythonWithLibraries(&'static str),
}

/// pip's options for the root's Python only.
const PYTHON: &[&str] = &[
    "--only-binary=:all:",
    "--python-version=3.13",
    "--implementation=cp",
    "--abi=cp313",
    "--abi=abi3",
    "--abi=none",
    "--platform=manylinux_2_28_x86_64",
    "--platform=manylinux_2_17_x86_64",
    "--platform=manylinux2014_x86_64",
    "--platform=manylinux2010_x86_64",
];

/// The folder with a folder for each wheel.
pub(super) fn wheels() -> Result<PathBuf> {
    Ok(crate::library::target_folder()?.join("third-party/wheels"))
}

impl Origin {
    /// The name, for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Debian(name)
            | Self::Source(name)
            | Self::Crate(name)
            | Self::Python(name)
            | Self::PythonWithLibraries(name) => name,
        }
    }

    /// The registry, for people.
    pub(super) fn registry(self) -> &'static str {
        match self {
            Self::Debian(_) => "Debian",
            Self::Source(_) => "Debian, built from its source",
            Self::Crate(_) => "Cargo's registry",
            Self::Python(_) | Self::PythonWithLibraries(_) => "PyPI",
        }
    }

    /// Obtains the program, unless it is there, and returns its version.
    pub(super) fn version(self, root: &Root) -> Result<String> {
        match self {
            Self::Debian(package) => root.version(package),
            Self::Source(package) => built()?.version(package),
            Self::Crate(name) => crates::tests(name),
            Self::Python(package) => wheel(package, |_| Ok(())),
            Self::PythonWithLibraries(package) => {
                wheel(package, |folder| libraries(folder, package))
            }
        }
    }
}

/// Builds everything that is built from sources, all at once.
pub(super) fn built() -> Result<Built> {
    let words = |list: &str| list.split_whitespace().map(str::to_owned).collect();
    Built::ensure(&Sources {
        name: "sources".to_owned(),
        sources: words("valkey libfabric"),
        tools: words(include_str!("sources.packages")),
        script: include_str!("sources.sh").to_owned(),
    })
}

/// Installs the libraries that pip leaves out.
fn libraries(folder: &Path, package: &str) -> Result<()> {
    let mut python = Command::new("python3");
    python.args(["-c", include_str!("scripts/libraries.py")]);
    python.arg(folder).args(PYTHON).arg(package);
    finish(&mut python)
}

fn finish(python: &mut Command) -> Result<()> {
    let output = python.output().context("cannot start python3")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pip: {}", words.trim());
    Ok(())
}

/// Installs a wheel, unless it is there, and returns its version. `first` prepares the folder; only a complete wheel
/// has a version.
pub(super) fn wheel(package: &str, first: impl FnOnce(&Path) -> Result<()>) -> Result<String> {
    let folder = wheels()?.join(package);
    if let Some(version) = wheel_version(&folder, package) {
        return Ok(version);
    }
    first(&folder)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(&folder)
        .args(PYTHON)
        .arg(package);
    finish(&mut pip)?;
    wheel_version(&folder, package).with_context(|| format!("pip left no {package}"))
}

/// The version in the name of the folder in which pip keeps a wheel's metadata.
fn wheel_version(folder: &Path, package: &str) -> Option<String> {
    let start = format!("{}-", package.replace('-', "_"));
    let mut entries = fs::read_dir(folder).ok()?.flatten();
    entries.find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix(&start)?.strip_suffix(".dist-info")?;
        Some(version.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_s_version_is_its_folder_s() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "a_b",
            "a_b.libs",
            "a_b-1.2.post1.dist-info",
            "a-9.dist-info",
        ] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let version = |package| wheel_version(folder.path(), package);
        assert_eq!(version("a-b").as_deref(), Some("1.2.post1"));
        assert_eq!(version("b"), None);
    }
}
