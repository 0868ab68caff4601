//! The QEMU that runs the guests.

use std::process::{Command, Stdio};

use super::Image;

const SYSTEM: &str = "qemu-system-x86_64";

/// The host's QEMU when it has `vfio-user-pci` (11 and newer), otherwise the image's.
#[must_use]
pub fn qemu(image: &Image) -> Command {
    if host_has_vfio_user() {
        Command::new(SYSTEM)
    } else {
        image_qemu(image)
    }
}

fn host_has_vfio_user() -> bool {
    let mut command = Command::new(SYSTEM);
    command
        .args(["-device", "vfio-user-pci,help"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn image_qemu(image: &Image) -> Command {
    let mut command = image.program(&format!("usr/bin/{SYSTEM}"));
    for firmware in ["usr/share/qemu", "usr/share/seabios"] {
        command.arg("-L").arg(image.root(firmware));
    }
    command
}
