//! A device's folder, which stands for the one that a kernel device has in sysfs: `ibdev_path`.
//!
//! ```text
//!   $XDG_RUNTIME_DIR, /dev/shm or /tmp
//!     └─ vrdma-USER-VERSION/GUID-GID/infiniband/vrdmaN/node_type, ports/1/link_layer, ...
//! ```
//! It is a real folder, so that every way to look at it finds it. Its contents follow from the adapter, so all programs
//! of a user share it and none removes it. Without a place to write there is no folder.

use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use vrdma_provider::message::AdapterReply;

/// Entries of the GID table; those behind the adapter's own are empty.
const GIDS: usize = 16;

/// Rights of the folder, and the bits by which others could write: they must not.
const MODE: u32 = 0o755;
const OTHERS_WRITE: u32 = 0o022;

/// Returns the folder of an adapter's device, made if it is not there.
pub(crate) fn folder(adapter: &AdapterReply, name: &str) -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let places = ["/dev/shm", "/tmp"].map(PathBuf::from);
    let mut places = runtime.map(PathBuf::from).into_iter().chain(places);
    places.find_map(|place| folder_in(&place, adapter, name).ok())
}

fn folder_in(place: &Path, adapter: &AdapterReply, name: &str) -> Result<PathBuf> {
    // SAFETY: it has no arguments and always succeeds.
    let user = unsafe { libc::geteuid() };
    let version = env!("CARGO_PKG_VERSION");
    let base = place.join(format!("vrdma-{user}-{version}"));
    make(&base)?;
    check_owner(&base, user)?;
    let device = format!("{}-{}", hex(&adapter.guid, ""), hex(&gid(adapter, 1), ""));
    let parent = base.join(device).join("infiniband");
    let folder = parent.join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(&parent)?;
    // Written aside, so that no program sees half of it.
    let aside = parent.join(format!(".{name}-{}", std::process::id()));
    write_all(&aside, adapter)?;
    match fs::rename(&aside, &folder) {
        Ok(()) => Ok(folder),
        Err(error) => {
            fs::remove_dir_all(&aside)?;
            // Another program was faster.
            folder.is_dir().then_some(folder).ok_or(error)
        }
    }
}

fn make(folder: &Path) -> Result<()> {
    match fs::DirBuilder::new().mode(MODE).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Checks the owner: anybody may make folders in these places, and would choose what we read in them.
fn check_owner(folder: &Path, user: u32) -> Result<()> {
    let status = fs::symlink_metadata(folder)?;
    let is_ours = status.is_dir() && status.uid() == user && status.mode() & OTHERS_WRITE == 0;
    is_ours
        .then_some(())
        .ok_or_else(|| Error::from(ErrorKind::PermissionDenied))
}

fn write_all(folder: &Path, adapter: &AdapterReply) -> Result<()> {
    for (file, text) in facts(adapter) {
        let path = folder.join(file);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, format!("{text}\n"))?;
    }
    Ok(())
}

/// Files that libraries and tools read (kernel: `Documentation/ABI/stable/sysfs-class-infiniband`).
fn facts(adapter: &AdapterReply) -> Vec<(String, String)> {
    const DEVICE: [(&str, &str); 4] = [
        ("node_type", "1: CA"),
        ("node_desc", "vRDMA"),
        ("hca_type", "vRDMA"),
        ("fw_ver", env!("CARGO_PKG_VERSION")),
    ];
    const PORT: [(&str, &str); 9] = [
        ("state", "4: ACTIVE"),
        ("phys_state", "5: LinkUp"),
        ("rate", "800 Gb/sec (8X NDR)"),
        ("link_layer", "Ethernet"),
        ("cap_mask", "0x00010000"),
        ("lid", "0x0"),
        ("lid_mask_count", "0"),
        ("sm_lid", "0x0"),
        ("pkeys/0", "0xffff"),
    ];
    let guid = hex(&adapter.guid, ":");
    let guids = ["node_guid", "sys_image_guid"].map(|file| (file.to_owned(), guid.clone()));
    let device = DEVICE.map(|(file, text)| (file.to_owned(), text.to_owned()));
    let port = PORT.map(|(file, text)| (format!("ports/1/{file}"), text.to_owned()));
    let gids = (0..GIDS).flat_map(|index| {
        let gid = gid(adapter, index);
        [
            (format!("ports/1/gids/{index}"), hex(&gid, ":")),
            (
                format!("ports/1/gid_attrs/types/{index}"),
                "RoCE v2".to_owned(),
            ),
        ]
    });
    guids
        .into_iter()
        .chain(device)
        .chain(port)
        .chain(gids)
        .collect()
}

/// Returns an entry of the GID table: the address that follows from the MAC, then the adapter's own.
fn gid(adapter: &AdapterReply, index: usize) -> [u8; 16] {
    match (index, adapter.ip_version) {
        (0, _) => {
            let mut gid = [0; 16];
            gid[..2].copy_from_slice(&[0xfe, 0x80]);
            gid[8..].copy_from_slice(&adapter.guid);
            gid
        }
        (1, 4) => {
            let mut gid = [0; 16];
            gid[10..12].fill(0xff);
            gid[12..].copy_from_slice(&adapter.ip[..4]);
            gid
        }
        (1, 6) => adapter.ip,
        _ => [0; 16],
    }
}

/// Formats bytes in groups of two, as the kernel writes them.
fn hex(bytes: &[u8], between: &str) -> String {
    let groups = bytes.chunks(2);
    let groups: Vec<_> = groups
        .map(|group| {
            group
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        })
        .collect();
    groups.join(between)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn adapter() -> AdapterReply {
        let mut ip = [0; 16];
        ip[..4].copy_from_slice(&[10, 0, 0, 5]);
        AdapterReply {
            guid: [2, 0, 0, 0xff, 0xfe, 0, 0, 5],
            ip,
            ip_version: 4,
            ..AdapterReply::default()
        }
    }

    #[test]
    fn the_folder_has_what_programs_read() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder_in(place.path(), &adapter(), "vrdma0").unwrap();
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
        assert_eq!(read("node_guid"), "0200:00ff:fe00:0005\n");
        assert_eq!(read("ports/1/gid_attrs/types/1"), "RoCE v2\n");
        assert_eq!(read("ports/1/pkeys/0"), "0xffff\n");
        assert_eq!(
            read("ports/1/gids/0"),
            "fe80:0000:0000:0000:0200:00ff:fe00:0005\n"
        );
        assert_eq!(
            read("ports/1/gids/1"),
            "0000:0000:0000:0000:0000:ffff:0a00:0005\n"
        );
        // Mooncake does this.
        assert!(folder.join("../..").canonicalize().unwrap().is_dir());
    }

    #[test]
    fn the_second_program_finds_the_folder_of_the_first() {
        let place = tempfile::tempdir().unwrap();
        let first = folder_in(place.path(), &adapter(), "vrdma0").unwrap();
        let second = folder_in(place.path(), &adapter(), "vrdma0").unwrap();
        assert_eq!(first, second);
        let beside = fs::read_dir(first.parent().unwrap()).unwrap();
        assert_eq!(beside.count(), 1, "nothing is left aside");
    }

    #[test]
    fn a_folder_that_others_may_write_is_not_trusted() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder_in(place.path(), &adapter(), "vrdma0").unwrap();
        let base = folder.ancestors().nth(3).unwrap();
        fs::set_permissions(base, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = folder_in(place.path(), &adapter(), "vrdma0");
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
