//! Tells which of a client's file systems keep their files in memory, from `/proc/PID/mountinfo`.
//!
//! A mapped file keeps its file system, so no other file system gets its device number meanwhile; and the list of
//! mounts comes from the kernel, not from the client.

use std::fs::File;
use std::io::{BufRead, BufReader};

use rustix::fs::{Dev, makedev};
use rustix::process::Pid;

use super::FromStart;

/// File systems whose pages come, or fault, at once.
const IN_MEMORY: [&str; 2] = ["tmpfs", "hugetlbfs"];

/// In containers a tmpfs at this path holds devices, whose pages are up to their drivers.
const DEVICES: &str = "/dev";

/// The mounts that a client sees.
#[derive(Debug)]
pub(super) struct Mounts(File);

impl Mounts {
    /// Opens the list of `pid`, if the kernel permits it.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        let path = format!("/proc/{}/mountinfo", pid.as_raw_nonzero());
        File::open(path).ok().map(Self)
    }

    /// Takes the mounts from a list.
    #[cfg(feature = "fuzz")]
    pub(super) fn listed(list: File) -> Self {
        Self(list)
    }

    /// Whether all files on a device are in memory, and none of them stands for a device.
    pub(super) fn are_in_memory(&self, device: Dev) -> bool {
        let lines = BufReader::new(FromStart::of(&self.0)).lines();
        let mut found = false;
        for line in lines.map_while(Result::ok) {
            let Some(mount) = Mount::parse(&line).filter(|mount| mount.device == device) else {
                continue;
            };
            if mount.place == DEVICES || !IN_MEMORY.contains(&mount.kind) {
                return false;
            }
            found = true;
        }
        found
    }
}

/// One line (proc_pid_mountinfo(5)).
#[derive(PartialEq, Eq, Debug)]
struct Mount<'a> {
    device: Dev,
    place: &'a str,
    kind: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        // Between the two halves are any number of fields; spaces in names are escaped.
        let (head, tail) = line.split_once(" - ")?;
        let mut words = head.split(' ');
        let (major, minor) = words.nth(2)?.split_once(':')?;
        Some(Self {
            device: makedev(major.parse().ok()?, minor.parse().ok()?),
            place: words.nth(1)?,
            kind: tail.split(' ').next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::fstat;

    use super::*;

    #[test]
    fn a_line_is_read() {
        let line = "30 25 0:27 /a /dev/shm rw,relatime shared:5 master:1 - tmpfs shm rw,size=9k";
        let mount = Mount {
            device: makedev(0, 27),
            place: "/dev/shm",
            kind: "tmpfs",
        };
        assert_eq!(Mount::parse(line), Some(mount));
        assert_eq!(Mount::parse("30 25 027 /a /dev/shm rw - tmpfs"), None);
        assert_eq!(Mount::parse("30 25 0:27 /a /dev/shm rw tmpfs"), None);
    }

    fn device(path: &str) -> Dev {
        fstat(File::open(path).unwrap().as_fd()).unwrap().st_dev
    }

    #[test]
    fn only_file_systems_in_memory_are() {
        let mounts = Mounts::of(rustix::process::getpid()).unwrap();
        assert!(mounts.are_in_memory(device("/dev/shm")));
        assert!(!mounts.are_in_memory(device("/proc/self")));
        assert!(!mounts.are_in_memory(device("/dev/zero")));
        assert!(!mounts.are_in_memory(makedev(0, 0)));
    }
}
