//! The file system of the one file, mounted by a separate process and attached to no folder.
//!
//! ```text
//!   relay ── starts ──► mounter: namespaces of its own, unless it is privileged; /dev/fuse; a detached mount
//!         ◄── "mounted: DEVICE MOUNT", two descriptors ──'   `── waits until its input ends
//! ```
//! An unprivileged process may mount only in a user namespace of its own, where it could not do the rest of a relay's
//! work. The mount is in no tree of folders, so that nothing is left of it when nobody has it open.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::mount::{fsconfig_create, fsconfig_set_string, fsmount, fsopen};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, getegid, geteuid, pidfd_getfd, pidfd_open,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::request::MODE;

/// Prefix of the line with the two descriptors' numbers.
const MOUNTED: &str = "mounted: ";

/// The command of a process that calls [`mount`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounter {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// What the mounter made.
pub(super) struct Made {
    /// The FUSE device by which the file is served.
    pub(super) device: OwnedFd,
    /// The mount; its root is the file.
    pub(super) mount: OwnedFd,
}

impl Mounter {
    pub(super) fn run(&self) -> io::Result<Made> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let made = take(&mut child);
        // This drops the child's input, which makes it exit.
        let output = child.wait_with_output()?;
        made.map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            match said.trim() {
                "" => error,
                said => io::Error::other(said.to_owned()),
            }
        })
    }
}

/// Takes the two descriptors from the child.
fn take(child: &mut Child) -> io::Result<Made> {
    let output = child.stdout.as_mut().map(BufReader::new);
    let mut lines = output
        .into_iter()
        .flat_map(BufRead::lines)
        .map_while(Result::ok);
    let numbers = lines.find_map(|line| numbers(&line));
    let [device, mount] =
        numbers.ok_or_else(|| io::Error::other("it does not say what it mounted"))?;
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let get = |number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty());
    Ok(Made {
        device: get(device)?,
        mount: get(mount)?,
    })
}

/// The descriptors' numbers in a line of the mounter.
fn numbers(line: &str) -> Option<[i32; 2]> {
    let (device, mount) = line.strip_prefix(MOUNTED)?.split_once(' ')?;
    Some([device.parse().ok()?, mount.parse().ok()?])
}

/// Mounts the file, prints its descriptors on the standard output, and waits until the standard input ends. For a
/// process that does nothing else, see [`Mounter`].
///
/// # Errors
/// When the kernel does not permit it.
pub fn mount() -> io::Result<()> {
    let made = make().or_else(|_| {
        enter()?;
        make()
    })?;
    let mut output = io::stdout().lock();
    let numbers = [&made.device, &made.mount].map(AsRawFd::as_raw_fd);
    writeln!(output, "\n{MOUNTED}{} {}", numbers[0], numbers[1])?;
    output.flush()?;
    io::stdin().lock().read_to_end(&mut Vec::new()).map(drop)
}

/// Enters namespaces where this user may mount, with the same user and group numbers.
fn enter() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    // SAFETY: neither flag separates descriptors, which others of this process would rely on.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

fn make() -> io::Result<Made> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let options = [
        ("fd", device.as_raw_fd().to_string()),
        ("rootmode", format!("{MODE:o}")),
        ("user_id", geteuid().as_raw().to_string()),
        ("group_id", getegid().as_raw().to_string()),
    ];
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, key, value)?;
    }
    fsconfig_create(&context)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
    Ok(Made {
        device: device.into(),
        mount,
    })
}
