//! A Debian root of named packages, for programs of this host in containers. It is beside the guests' image, and the
//! host itself gets none of the packages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::build::{archive_line, cached, mmdebstrap, run, unpack_all};
use super::cache_folder;
use super::recipe::{DPKG_OPTIONS, SUITE, keyed};
use crate::steps::Steps;
use crate::{mirror, requirements};

/// A release of Debian.
#[derive(Debug, Clone, Copy, Hash, PartialEq, Eq)]
pub enum Release {
    /// The release of the guests' image.
    Stable,
    /// The release that has the newest of everything, and changes daily.
    Unstable,
}

impl Release {
    fn suite(self) -> &'static str {
        match self {
            Self::Stable => SUITE,
            Self::Unstable => "sid",
        }
    }
}

/// The contents of a root.
#[derive(Debug, Clone, Hash)]
pub struct Contents {
    /// The name of its folder, and of the step that makes it.
    pub name: String,
    /// Where packages come from.
    pub release: Release,
    /// Names of packages in the archive.
    pub packages: Vec<String>,
}

/// A complete root.
#[derive(Debug, Clone)]
pub struct Root {
    folder: PathBuf,
}

impl Root {
    /// The root with these contents, made first when it is missing.
    ///
    /// # Errors
    /// When it cannot be made; nothing is left in its place then.
    pub fn ensure(contents: &Contents) -> Result<Self> {
        let name = keyed(&contents.name, (contents, SUITE, DPKG_OPTIONS));
        let folder = cached(&cache_folder()?, &name, |partial| make(partial, contents))?;
        Ok(Self { folder })
    }

    /// The folder of its files.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// The version of a package in it.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn version(&self, package: &str) -> Result<String> {
        let status = self.path().join("var/lib/dpkg/status");
        let text = fs::read_to_string(&status)
            .with_context(|| format!("cannot read {}", status.display()))?;
        version(&text, package).with_context(|| format!("{package} is not installed"))
    }
}

/// Finds a package's version in stanzas as dpkg keeps them.
fn version(status: &str, package: &str) -> Option<String> {
    let mut stanzas = status.split("\n\n");
    let stanza =
        stanzas.find(|stanza| stanza.lines().next() == Some(&format!("Package: {package}")))?;
    let version = stanza
        .lines()
        .find_map(|line| line.strip_prefix("Version: "));
    version.map(str::to_owned)
}

fn make(folder: &Path, contents: &Contents) -> Result<()> {
    requirements::ensure()?;
    let mirror = mirror::discover()?;
    let steps = Steps::default();
    let packages: Vec<&str> = contents.packages.iter().map(String::as_str).collect();
    let archive = folder.join("root.tar");
    let mut command = mmdebstrap(&packages)?;
    command.args(["--variant=essential", "--format=tar"]);
    for option in DPKG_OPTIONS {
        command.arg(format!("--dpkgopt={option}"));
    }
    if contents.release == Release::Unstable {
        // The archive's lists are valid for a week, and a private mirror may be older than that.
        command.arg("--aptopt=Acquire::Check-Valid-Until \"false\"");
    }
    let suite = contents.release.suite();
    command.arg(suite).arg(&archive);
    command.arg(archive_line(&mirror, suite));
    run(command, steps.start(&contents.name))?;
    unpack_all(folder, &["root.tar"], &steps)?;
    fs::remove_file(archive).context("cannot remove the archive of a root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_s_version_is_its_own() {
        let status = "Package: fio-extra\nVersion: 1\n\nPackage: fio\nStatus: install ok installed\nVersion: 3.39-1\n";
        assert_eq!(version(status, "fio").as_deref(), Some("3.39-1"));
        assert_eq!(version(status, "fi"), None);
    }
}
