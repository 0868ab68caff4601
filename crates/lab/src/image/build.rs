//! Building an image: two package roots side by side, then the disk.
//!
//! ```text
//!  kernel root (unpacked only) --kernel.sh--> kernel.tar --+
//!  guest root (installed)      --guest.sh---> guest.tar  --+--> root/ --its mke2fs--> disk.ext4
//! ```
//!
//! Archives carry the files' owners through, so that an ordinary user, who
//! cannot create root's files, gets the same disk.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::recipe::{BACKPORTS, Recipe, SUITE};
use super::{Image, root_program};
use crate::steps::{Step, Steps};
use crate::{mirror, requirements};

/// Where mmdebstrap assembles its roots. Not /tmp, which may be in memory.
const SCRATCH: &str = "/var/tmp";

/// Lines of a failed program's output to show.
const LAST_WORDS: usize = 15;

/// Space of the disk beyond its contents, as a divisor: for inodes, directories and block ends. Nothing is ever written
/// to it.
const DISK_SPARE: u64 = 6;

pub(super) fn build(recipe: &Recipe, cache: &Path) -> Result<Image> {
    let folder = cached(cache, &recipe.folder_name(), |partial| {
        build_in(partial, recipe)
    })?;
    Ok(Image { folder })
}

/// The cache's folder of this name, filled first if it is missing.
pub(super) fn cached(
    cache: &Path,
    name: &str,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    fs::create_dir_all(cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let folder = cache.join(name);
    let lock = File::create(cache.join(format!("{name}.lock")))?;
    lock.lock().context("cannot lock the image cache")?;
    if folder.is_dir() {
        return Ok(folder);
    }
    let partial = cache.join(format!("{name}.partial"));
    if partial.exists() {
        fs::remove_dir_all(&partial).context("cannot remove an interrupted build")?;
    }
    fs::create_dir(&partial)?;
    if let Err(error) = fill(&partial) {
        // The build's own error says more than an error about its remains.
        let _ = fs::remove_dir_all(&partial);
        return Err(error);
    }
    fs::rename(&partial, &folder).context("cannot put the image in place")?;
    Ok(folder)
}

fn build_in(folder: &Path, recipe: &Recipe) -> Result<()> {
    requirements::ensure()?;
    let mirror = mirror::discover()?;
    let steps = Steps::default();
    let (kernel, guest) = thread::scope(|scope| {
        let kernel = scope.spawn(|| make_kernel(folder, recipe, &mirror, &steps));
        let guest = make_guest(folder, recipe, &mirror, &steps);
        (
            kernel
                .join()
                .unwrap_or_else(|_| Err(anyhow!("the kernel step panicked"))),
            guest,
        )
    });
    kernel?;
    guest?;
    unpack(folder, &steps)?;
    make_disk(folder, &steps)
}

fn make_kernel(folder: &Path, recipe: &Recipe, mirror: &str, steps: &Steps) -> Result<()> {
    let mut command = mmdebstrap(&recipe.kernel_packages)?;
    command.args(["--variant=extract", "--format=null"]);
    command.arg(format!("--extract-hook={}", recipe.kernel_script));
    command.arg(download_hook(
        "extract",
        "/kernel.tar",
        &folder.join("kernel.tar"),
    )?);
    command.args([SUITE, "/dev/null", &archive_line(mirror, SUITE)]);
    run(
        command,
        steps.start("Linux kernel, stock vmw_pvrdma driver"),
    )
}

fn make_guest(folder: &Path, recipe: &Recipe, mirror: &str, steps: &Steps) -> Result<()> {
    let mut command = mmdebstrap(&recipe.guest_packages)?;
    command.args(["--variant=essential", "--format=tar"]);
    for option in recipe.dpkg_options {
        command.arg(format!("--dpkgopt={option}"));
    }
    command.arg(format!(
        "--setup-hook={}",
        preferences_hook(&recipe.preferences())
    ));
    command.arg(format!("--customize-hook={}", recipe.guest_script));
    command.arg(SUITE).arg(folder.join("guest.tar"));
    command.args([archive_line(mirror, SUITE), archive_line(mirror, BACKPORTS)]);
    run(command, steps.start("guest programs, QEMU"))
}

pub(super) fn mmdebstrap(packages: &[&str]) -> Result<Command> {
    let mut command = privately_mounting("mmdebstrap");
    command
        .arg("--mode=auto")
        .arg(format!("--include={}", packages.join(",")));
    for scheme in ["http", "https"] {
        if let Some(proxy) = host_proxy(scheme)? {
            command.arg(format!("--aptopt=Acquire::{scheme}::Proxy \"{proxy}\""));
        }
    }
    command.env("TMPDIR", SCRATCH);
    Ok(command)
}

/// What root's mmdebstrap mounts (/proc, /sys and this machine's /dev/shm) would outlive it if it is killed, and
/// cleaning up after it would empty them. In a mount namespace of its own the mounts go with it. An ordinary user's
/// mmdebstrap has one already.
fn privately_mounting(program: &str) -> Command {
    if !requirements::is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation=private", program]);
    command
}

/// The proxy in the host's apt configuration, which mmdebstrap does not read.
fn host_proxy(scheme: &str) -> Result<Option<String>> {
    let item = format!("Acquire::{scheme}::Proxy");
    let output = Command::new("apt-config")
        .args(["dump", "--format=%v", &item])
        .output()
        .context("cannot start apt-config")?;
    let proxy = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok((!proxy.is_empty() && !proxy.contains('"')).then_some(proxy))
}

/// A line of apt's sources.
pub(super) fn archive_line(mirror: &str, suite: &str) -> String {
    format!(
        "deb [signed-by={}] {mirror} {suite} main",
        requirements::KEYRING
    )
}

/// A hook that writes apt's preferences. It is given as shell text: an ordinary user's mmdebstrap runs hooks under an
/// identity that may not read this user's files.
fn preferences_hook(preferences: &str) -> String {
    format!(
        "mkdir -p \"$1/etc/apt/preferences.d\"; cat > \"$1/etc/apt/preferences.d/lab\" <<'END'\n{preferences}END\n"
    )
}

/// A hook that runs outside, as this user, at the end of a stage, the only one that does. Its arguments are split like
/// a shell's.
pub(super) fn download_hook(stage: &str, inside: &str, outside: &Path) -> Result<String> {
    let outside = outside.to_str().context("the cache's path is not UTF-8")?;
    ensure!(
        !outside.contains('\''),
        "the cache's path holds a quote: {outside}"
    );
    Ok(format!("--{stage}-hook=download {inside} '{outside}'"))
}

/// Unpacks the root as the user's own files, for running programs on the host.
fn unpack(folder: &Path, steps: &Steps) -> Result<()> {
    unpack_all(folder, &["guest.tar", "kernel.tar"], steps)
}

/// Unpacks archives of `folder` into its `root`.
pub(super) fn unpack_all(folder: &Path, archives: &[&str], steps: &Steps) -> Result<()> {
    let root = folder.join("root");
    fs::create_dir(&root)?;
    let step = steps.start("unpacking");
    for name in archives {
        let mut command = Command::new("tar");
        command
            .arg("--extract")
            .arg("--file")
            .arg(folder.join(name));
        command.arg("--directory").arg(&root);
        command.args(["--no-same-owner", "--exclude=./dev/*"]);
        expect_success(&mut command)?;
    }
    step.done();
    Ok(())
}

fn make_disk(folder: &Path, steps: &Steps) -> Result<()> {
    let step = steps.start("disk");
    let (guest, kernel) = (folder.join("guest.tar"), folder.join("kernel.tar"));
    expect_success(
        Command::new("tar")
            .arg("--concatenate")
            .arg("--file")
            .args([&guest, &kernel]),
    )?;
    let contents = fs::metadata(&guest)?.len();
    let size_kib = (contents + contents / DISK_SPARE) >> 10;
    let mut command = root_program(&folder.join("root"), "usr/sbin/mke2fs");
    command.args(["-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d"]);
    command
        .arg(&guest)
        .arg(folder.join("disk.ext4"))
        .arg(format!("{size_kib}k"));
    expect_success(&mut command)?;
    fs::remove_file(guest)?;
    fs::remove_file(kernel)?;
    step.done();
    Ok(())
}

/// Runs mmdebstrap, showing its informational lines.
pub(super) fn run(mut command: Command, step: Step) -> Result<()> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start mmdebstrap")?;
    let stderr = child.stderr.take().expect("the pipe was asked for");
    let mut last: Vec<String> = Vec::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if let Some(information) = line.strip_prefix("I: ") {
            step.say(information.lines().next().unwrap_or_default());
        }
        last.push(line);
        last.drain(..last.len().saturating_sub(LAST_WORDS));
    }
    if !child.wait()?.success() {
        bail!("mmdebstrap failed; its last words:\n{}", last.join("\n"));
    }
    step.done();
    Ok(())
}

fn expect_success(command: &mut Command) -> Result<()> {
    let program = PathBuf::from(command.get_program());
    let output = command
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{} failed: {}",
        program.display(),
        words.trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_download_hook_keeps_blanks_and_refuses_quotes() {
        let hook = download_hook("extract", "/k", Path::new("/a b/k.tar")).unwrap();
        assert_eq!(hook, "--extract-hook=download /k '/a b/k.tar'");
        assert!(download_hook("extract", "/k", Path::new("/it's")).is_err());
    }

    #[test]
    fn what_root_mounts_is_seen_by_nobody_else() {
        if !requirements::is_root() {
            assert_eq!(privately_mounting("sh").get_program(), "sh");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().to_str().unwrap();
        let mut command = privately_mounting("sh");
        command.args([
            "-c",
            "mount -t tmpfs none \"$0\" && touch \"$0/file\"",
            folder,
        ]);
        expect_success(&mut command).unwrap();
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
    }

    #[test]
    fn a_failed_program_is_quoted() {
        let error =
            expect_success(Command::new("sh").args(["-c", "echo no >&2; exit 1"])).unwrap_err();
        assert_eq!(error.to_string(), "sh failed: no");
        assert!(expect_success(&mut Command::new("true")).is_ok());
    }
}
