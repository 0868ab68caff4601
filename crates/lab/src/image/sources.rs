//! Programs that Debian has as source only, or without an option that a test needs: built from its source packages in a
//! root of the image's release. The host gets none of the tools.
//!
//! ```text
//!   tools --> root, thrown away
//!               /build/NAME           a source package's upstream archive, unpacked
//!               /built/NAME           what the script leaves  --tar--> NAME-KEY/root/built/NAME
//!               /built/NAME.version
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::build::{archive_line, cached, download_hook, mmdebstrap, run, unpack_all};
use super::cache_folder;
use super::recipe::{DPKG_OPTIONS, SUITE, keyed};
use crate::steps::Steps;
use crate::{mirror, requirements};

/// Source packages to build, and how.
#[derive(Debug, Clone, Hash)]
pub struct Sources {
    /// The name of its folder, and of the step that makes it.
    pub name: String,
    /// Source packages of the archive.
    pub sources: Vec<String>,
    /// Packages of the archive that building needs.
    pub tools: Vec<String>,
    /// The script, run with `sh -e` in `/build` of the root.
    pub script: String,
}

/// All that was built.
#[derive(Debug, Clone)]
pub struct Built {
    folder: PathBuf,
}

impl Built {
    /// The programs of these sources, built first when they are missing.
    ///
    /// # Errors
    /// When it cannot be built; nothing is left in its place then.
    pub fn ensure(sources: &Sources) -> Result<Self> {
        let name = keyed(&sources.name, (sources, FETCH, SUITE));
        let folder = cached(&cache_folder()?, &name, |partial| make(partial, sources))?;
        Ok(Self { folder })
    }

    /// The folder with one folder for each source package.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join("root/built")
    }

    /// The version of a source package's upstream archive.
    ///
    /// # Errors
    /// When it is not one of the sources.
    pub fn version(&self, source: &str) -> Result<String> {
        let path = self.path().join(format!("{source}.version"));
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.trim().to_owned())
    }
}

/// Runs outside the root, where apt knows the archive; `$2` names the sources. Debian's own changes are left out.
const FETCH: &str = r#"set -eu
mkdir "$1/build" "$1/built"
cd "$1/build"
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get source --quiet --tar-only --download-only $2
for archive in *.orig.tar.*; do
    name=${archive%%_*}
    version=${archive#*_}
    mkdir "$name"
    tar --extract --file "$archive" --directory "$name" --strip-components=1 --no-same-owner
    echo "${version%.orig.tar.*}" >"$1/built/$name.version"
done
"#;

fn make(folder: &Path, sources: &Sources) -> Result<()> {
    requirements::ensure()?;
    let mirror = mirror::discover()?;
    let steps = Steps::default();
    let tools: Vec<&str> = sources.tools.iter().map(String::as_str).collect();
    let mut command = mmdebstrap(&tools)?;
    command.args(["--variant=essential", "--format=null"]);
    for option in DPKG_OPTIONS {
        command.arg(format!("--dpkgopt={option}"));
    }
    command.arg(format!("--customize-hook={}", build_hook(sources)));
    command.arg(download_hook(
        "customize",
        "/built.tar",
        &folder.join("built.tar"),
    )?);
    let archive = archive_line(&mirror, SUITE);
    command.args([SUITE, "/dev/null", &archive, &source_line(&archive)]);
    run(command, steps.start(&sources.name))?;
    unpack_all(folder, &["built.tar"], &steps)?;
    fs::remove_file(folder.join("built.tar")).context("cannot remove an archive")
}

/// A hook that builds. It is given as shell text, for the reason that `preferences_hook` has.
fn build_hook(sources: &Sources) -> String {
    let Sources {
        sources, script, ..
    } = sources;
    let names = sources.join(" ");
    format!(
        "set -- \"$1\" '{names}'\n{FETCH}\
         cat >\"$1/build/build.sh\" <<'END'\n{script}\nEND\n\
         chroot \"$1\" sh -ec 'cd /build && . ./build.sh' >&2\n\
         tar --create --file \"$1/built.tar\" --directory \"$1\" built\n"
    )
}

/// The line for the same archive's source packages.
fn source_line(archive: &str) -> String {
    archive.replacen("deb ", "deb-src ", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_of_an_archive_are_beside_its_packages() {
        let line = source_line("deb [signed-by=/deb /k] http://deb.example/ trixie main");
        assert_eq!(
            line,
            "deb-src [signed-by=/deb /k] http://deb.example/ trixie main"
        );
    }

    #[test]
    fn the_hook_is_a_shell_s() {
        let sources = Sources {
            name: "n".to_owned(),
            sources: vec!["a".to_owned(), "b".to_owned()],
            tools: Vec::new(),
            script: "make -C a\nmake -C b".to_owned(),
        };
        let hook = build_hook(&sources);
        assert!(hook.starts_with("set -- \"$1\" 'a b'\n"));
        let parsed = std::process::Command::new("sh")
            .args(["-nc", &hook])
            .status();
        assert!(parsed.unwrap().success());
    }
}
