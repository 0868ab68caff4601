//! `cargo xtask library`: links `libibverbs.so.1` = `librdmacm.so.1` with the version nodes that
//! programs ask for, which rustc cannot do by itself.
//!
//! ```text
//!   crates/ibverbs/names.txt --+--> names.map (version script) --+
//!                              +--> names.s   (aliases)  --------+--> cc -shared --> libibverbs.so.1
//!   cargo build -p vrdma-ibverbs --> libvrdma_ibverbs.a ---------+                   librdmacm.so.1 ->
//! ```

mod names;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use names::Names;

use crate::cargo;

/// The file that programs load.
const LIBRARY: &str = "libibverbs.so.1";
/// The link to it under librdmacm's name.
const SECOND_NAME: &str = "librdmacm.so.1";

/// Options of `cargo xtask library`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Build with optimisation
    #[arg(long)]
    release: bool,
}

/// Builds and links the library, and prints its path.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let library = link(arguments.release)?;
    println!("{}", library.display());
    Ok(())
}

/// Builds and links the library, and returns the path of `libibverbs.so.1`.
pub(crate) fn link(release: bool) -> Result<PathBuf> {
    build(release)?;
    let profile = target_folder()?.join(if release { "release" } else { "debug" });
    let folder = profile.join("lib");
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let table = workspace().join("crates/ibverbs/names.txt");
    let text =
        std::fs::read_to_string(&table).with_context(|| format!("reading {}", table.display()))?;
    let names = Names::parse(&text)?;
    let (map, aliases) = (folder.join("names.map"), folder.join("names.s"));
    std::fs::write(&map, names.version_script())?;
    std::fs::write(&aliases, names.aliases())?;
    let library = folder.join(LIBRARY);
    link_shared(
        &profile.join("libvrdma_ibverbs.a"),
        &map,
        &aliases,
        &library,
    )?;
    second_name(&folder)?;
    Ok(library)
}

fn build(release: bool) -> Result<()> {
    let mut cargo = cargo::command();
    cargo.args(["build", "--quiet", "--package", "vrdma-ibverbs", "--lib"]);
    if release {
        cargo.arg("--release");
    }
    let status = cargo.status().context("running cargo build")?;
    ensure!(status.success(), "cargo build -p vrdma-ibverbs failed");
    Ok(())
}

/// Links all symbols of the archive, then drops those that no exported name needs. `-z now`: nothing is bound lazily
/// inside a polling loop. `-z nodelete`: the library's code must stay as long as its threads and fork handlers.
/// `-z defs`: a missing name is an error here and not in a user's program.
fn link_shared(archive: &Path, map: &Path, aliases: &Path, library: &Path) -> Result<()> {
    // Two links at the same time must not write the same file.
    let written = library.with_extension(std::process::id().to_string());
    let mut version_script = std::ffi::OsString::from("-Wl,--version-script=");
    version_script.push(map);
    let status = Command::new("cc")
        .args(["-shared", "-o"])
        .arg(&written)
        .arg(aliases)
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .arg(version_script)
        .arg(format!("-Wl,-soname,{LIBRARY}"))
        .arg("-Wl,-z,now,-z,relro,-z,nodelete,-z,defs,-z,noexecstack,--gc-sections,--build-id")
        .args(floor())
        .args(["-lpthread", "-ldl", "-lgcc_s", "-lc"])
        .status()
        .context("running cc, the C compiler: scripts/setup installs it")?;
    ensure!(status.success(), "linking {} failed", library.display());
    // A program that has the old file mapped keeps the old file.
    std::fs::rename(&written, library).context("replacing the library")
}

/// Functions that std takes from the newest glibc, and `floor.x86_64.s` from the oldest.
const WRAPPED: [&str; 13] = [
    "dlsym",
    "fstat64",
    "pthread_attr_getguardsize",
    "pthread_attr_getstack",
    "pthread_attr_setstacksize",
    "pthread_create",
    "pthread_detach",
    "pthread_getattr_np",
    "pthread_join",
    "pthread_key_create",
    "pthread_key_delete",
    "pthread_setname_np",
    "pthread_setspecific",
];

/// Arguments that lower the glibc version that the library needs. In glibc before 2.34 two of these functions are in
/// separate libraries, which later versions ship empty. Machines other than x86-64 need the glibc of the machine that
/// links.
fn floor() -> Vec<String> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    let wrappers = workspace().join("crates/ibverbs/floor.x86_64.s");
    let wraps = WRAPPED.iter().map(|name| format!("-Wl,--wrap={name}"));
    let libraries = ["-Wl,--no-as-needed", "-l:libpthread.so.0", "-l:libdl.so.2"];
    wraps
        .chain([wrappers.display().to_string()])
        .chain(libraries.map(str::to_owned))
        .collect()
}

fn second_name(folder: &Path) -> Result<()> {
    let link = folder.join(SECOND_NAME);
    match std::os::unix::fs::symlink(LIBRARY, &link) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("linking {}", link.display()))
        }
        _ => Ok(()),
    }
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The folder in which cargo puts what it builds.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(workspace())
        .output()
        .context("running cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata failed");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let folder = metadata["target_directory"].as_str();
    Ok(folder
        .context("cargo metadata names no target directory")?
        .into())
}
