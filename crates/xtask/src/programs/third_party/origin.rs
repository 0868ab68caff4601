//! Where programs come from, and which version of them came.

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
    /// One that has libraries of its own beside its Python.
    PythonWithLibraries(&'static str),
}

/// For the root's Python and no other.
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

/// Where wheels lie, a folder for each.
pub(super) fn wheels() -> Result<PathBuf> {
    Ok(crate::library::target_folder()?.join("third-party/wheels"))
}

impl Origin {
    /// For a person.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Debian(name)
            | Self::Source(name)
            | Self::Crate(name)
            | Self::Python(name)
            | Self::PythonWithLibraries(name) => name,
        }
    }

    /// Of which registry, for a person.
    pub(super) fn registry(self) -> &'static str {
        match self {
            Self::Debian(_) => "Debian",
            Self::Source(_) => "Debian, built from its source",
            Self::Crate(_) => "Cargo's registry",
            Self::Python(_) | Self::PythonWithLibraries(_) => "PyPI",
        }
    }

    /// Gets it, unless it is there, and tells the version.
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

/// What is built from sources, all at once.
pub(super) fn built() -> Result<Built> {
    let words = |list: &str| list.split_whitespace().map(str::to_owned).collect();
    Built::ensure(&Sources {
        name: "sources".to_owned(),
        sources: words("valkey libfabric"),
        tools: words(include_str!("sources.packages")),
        script: include_str!("sources.sh").to_owned(),
    })
}

/// What pip leaves out.
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

/// `first` prepares the folder; what is there as a whole has a version.
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

/// By the folder in which pip keeps what it knows of a wheel.
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
