//! Our own measuring programs, in C: compiled where they are needed, from sources that are contained in this program.
//!
//! ```text
//!  vrdma-cp    programs/cp     copies a file by RDMA          cc, libibverbs, librdmacm
//!  vrdma-mpi   programs/mpi    what MPI takes, checked        mpicc
//!  cavity.sh   programs/cavity OpenFOAM's cavity, made, run and timed
//!  rude        programs/cp/check, with check.sh: an end of vrdma-cp that does not behave
//! ```
//!
//! They also run in guests and containers, which have no compiler, as long as their glibc is not older than the one
//! here and their Open MPI has the same soname (`libmpi.so.40` of 4.x and 5.x).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A file of the sources: its path below `programs/` and its contents.
type Source = (&'static str, &'static str);

macro_rules! sources {
    ($($path:literal)*) => { &[$(($path, include_str!(concat!("../programs/", $path)))),*] };
}

const CP: &[Source] = sources! {
    "cp/checksum.c" "cp/checksum.h" "cp/connection.c" "cp/file.c" "cp/file.h" "cp/link.c" "cp/link.h" "cp/main.c"
    "cp/receive.c" "cp/say.c" "cp/say.h" "cp/send.c" "cp/transfer.h" "cp/waiting.c" "cp/waiting.h" "cp/wire.c"
    "cp/wire.h"
};

const RUDE: &[Source] = sources! {
    "cp/check/rude.c" "cp/connection.c" "cp/link.c" "cp/link.h" "cp/say.c" "cp/say.h" "cp/waiting.c" "cp/waiting.h"
    "cp/wire.c" "cp/wire.h"
};

const MPI: &[Source] = sources! {
    "mpi/bench.c" "mpi/bench.h" "mpi/bfs.c" "mpi/collective.c" "mpi/get.c" "mpi/graph.c" "mpi/graph.h" "mpi/mail.c"
    "mpi/main.c" "mpi/point.c" "mpi/search.c" "mpi/search.h" "mpi/transfer.c" "mpi/validate.c"
};

const CAVITY: &str = include_str!("../programs/cavity/cavity.sh");

const CHECK: &str = include_str!("../programs/cp/check/check.sh");

/// A program of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// `vrdma-cp`.
    Cp,
    /// `vrdma-mpi`.
    Mpi,
    /// `cavity.sh`, which is not compiled.
    Cavity,
    /// `rude`, and beside it `check.sh`.
    Rude,
}

impl Own {
    /// All programs.
    pub const ALL: [Self; 4] = [Self::Cp, Self::Mpi, Self::Cavity, Self::Rude];

    /// Name of the program's file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cp => "vrdma-cp",
            Self::Mpi => "vrdma-mpi",
            Self::Cavity => "cavity.sh",
            Self::Rude => "rude",
        }
    }

    fn sources(self) -> &'static [Source] {
        match self {
            Self::Cp => CP,
            Self::Mpi => MPI,
            Self::Cavity => &[],
            Self::Rude => RUDE,
        }
    }

    /// The compiler, the libraries that it links, and Debian's packages of both.
    fn compiler(self) -> (&'static str, &'static [&'static str], &'static str) {
        match self {
            Self::Cp | Self::Rude | Self::Cavity => (
                "cc",
                &["-lrdmacm", "-libverbs"],
                "gcc libibverbs-dev librdmacm-dev",
            ),
            Self::Mpi => ("mpicc", &[], "gcc libopenmpi-dev"),
        }
    }

    /// Compiles the program into a folder, which must exist, and returns its path.
    ///
    /// # Errors
    /// When the compiler or a library is missing, with the packages that contain them.
    pub fn build(self, folder: &Path) -> Result<PathBuf> {
        let work = tempfile::Builder::new()
            .prefix("vrdma-program-")
            .tempdir()?;
        if self == Self::Cavity {
            let (script, program) = (work.path().join("script"), folder.join(self.name()));
            write(&script, CAVITY)?;
            put(&script, &program)?;
            return Ok(program);
        }
        let (compiler, libraries, packages) = self.compiler();
        let mut command = Command::new(compiler);
        command.args(["-std=c99", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra"]);
        command.arg("-Wshadow").arg("-Werror").current_dir(&work);
        for (path, text) in self.sources() {
            write(&work.path().join(path), text)?;
            command.args(path.ends_with(".c").then_some(path));
        }
        // Another run may be using the present file.
        let (built, program) = (work.path().join("program"), folder.join(self.name()));
        let output = command.arg("-o").arg(&built).args(libraries).output();
        let output = output
            .with_context(|| format!("{compiler} is missing: install the packages {packages}"))?;
        ensure!(
            output.status.success(),
            "{} does not compile (it needs the packages {packages}): {}",
            self.name(),
            String::from_utf8_lossy(&output.stderr)
        );
        put(&built, &program)?;
        if self == Self::Rude {
            let script = work.path().join("check.sh");
            write(&script, CHECK)?;
            put(&script, &folder.join("check.sh"))?;
        }
        Ok(program)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Replaces the program in one step, as an executable.
fn put(built: &Path, program: &Path) -> Result<()> {
    let folder = program.parent().context("a program needs a folder")?;
    let copy = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    fs::copy(built, &copy)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&copy, mode)?;
    copy.persist(program)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is not listed would be missed only when it is compiled.
    #[test]
    fn every_source_is_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        for folder in ["cp", "cp/check", "mpi"] {
            for entry in fs::read_dir(root.join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = format!("{folder}/{name}");
                let known = Own::ALL.iter().flat_map(|own| own.sources());
                let is_listed = known.map(|source| source.0).any(|known| known == path);
                let is_source = name.ends_with(".c") || name.ends_with(".h");
                assert!(is_listed || !is_source, "{path}");
            }
        }
    }

    #[test]
    fn vrdma_cp_compiles_and_tells_how_it_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let program = Own::Cp.build(folder.path()).unwrap();
        let help = Command::new(&program).arg("--help").output().unwrap();
        assert!(help.status.success());
        assert!(String::from_utf8_lossy(&help.stdout).contains("--receive FOLDER"));
        for wrong in [
            &["--segment", "0", "file", "host"][..],
            &["--segment", "5M", "file", "host"],
            &["--slots", "65", "file", "host"],
            &["--limit", "-1", "--discard"],
            &["--pattern", "99999999999T", "host"],
            &["--discard", "--receive", "."],
            &["file"],
            &[],
        ] {
            let output = Command::new(&program).args(wrong).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{wrong:?}");
            assert!(!output.stderr.is_empty(), "{wrong:?}");
        }
    }
}
