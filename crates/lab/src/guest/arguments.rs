//! QEMU's command line.
//!
//! PCI slot 5 is the adapter: vmxnet3 in function 0, PVRDMA in function 1, as
//! the stock driver wants them. The device in another process reaches the
//! guest's memory by file descriptor, hence the shared memory backend.

use std::ffi::OsString;
use std::path::Path;

use super::config::{Ethernet, GuestConfig};
use crate::agent::protocol::PORT_NAME;
use crate::image::{Accelerator, Image};

/// Vulnerabilities of real processors need no mitigation in a test guest, and the mitigations are slow to emulate. The
/// check of the timer's interrupt relies on a processor that runs all the time, which it does not on a busy host.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet rdinit=/init mitigations=off audit=0 \
     random.trust_cpu=on no_timer_check";

/// For a guest that lends functions: it translates their addresses and their interrupts. With KVM, QEMU then handles
/// the interrupts itself.
const LENDING: &str = "intel_iommu=on";
const LENDING_MACHINE: &str = "kernel-irqchip=split";
const IOMMU: &str = "intel-iommu,intremap=on,caching-mode=on";

/// Offloads of virtio-net in both directions: without them every frame is complete and fits the MTU.
const OFFLOADS: &[&str] = &[
    "csum",
    "gso",
    "host_tso4",
    "host_tso6",
    "host_ecn",
    "host_ufo",
    "host_uso",
    "guest_csum",
    "guest_tso4",
    "guest_tso6",
    "guest_ecn",
    "guest_ufo",
    "guest_uso4",
    "guest_uso6",
];

pub(super) fn arguments(
    image: &Image,
    accelerator: Accelerator,
    config: &GuestConfig,
) -> Vec<OsString> {
    let mut arguments = machine_arguments(accelerator, config);
    arguments.extend(inner_arguments(image, config));
    if config.incoming {
        // The guest starts stopped: nothing runs before its device has continued, which QEMU does not migrate.
        arguments.push("-S".into());
    }
    arguments
}

/// Processors and memory.
fn machine_arguments(accelerator: Accelerator, config: &GuestConfig) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    arguments.option("-M", machine(&config.ethernet));
    arguments.words(&["-nodefaults", "-display", "none"]);
    arguments.words(&accelerator.arguments());
    arguments.option("-smp", config.processors.to_string());
    arguments.option("-m", format!("{}M", config.memory_mib));
    arguments.option(
        "-object",
        format!(
            "memory-backend-memfd,id=ram,size={}M,share=on",
            config.memory_mib
        ),
    );
    arguments.0
}

/// The devices of the machine.
pub(super) fn inner_arguments(image: &Image, config: &GuestConfig) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    boot(&mut arguments, image, config);
    sockets(&mut arguments, config);
    adapter(&mut arguments, config);
    if config.incoming {
        arguments.words(&["-incoming", "defer"]);
    }
    arguments.0
}

fn boot(arguments: &mut Arguments, image: &Image, config: &GuestConfig) {
    arguments.option("-kernel", image.kernel());
    arguments.option("-initrd", config.file("initramfs"));
    arguments.option("-append", kernel_arguments(&config.ethernet));
    arguments.option(
        "-serial",
        format!("file:{}", escaped(&config.file("console"))),
    );
    let disk = escaped(&image.disk());
    arguments.option(
        "-drive",
        format!("file={disk},if=none,id=disk,format=raw,readonly=on,cache=unsafe"),
    );
    arguments.words(&["-device", "virtio-blk-pci,drive=disk"]);
}

fn machine(ethernet: &Ethernet) -> String {
    let usual = "q35,memory-backend=ram";
    match ethernet {
        Ethernet::Functions => format!("{usual},{LENDING_MACHINE}"),
        _ => usual.to_owned(),
    }
}

fn kernel_arguments(ethernet: &Ethernet) -> String {
    match ethernet {
        Ethernet::Functions => format!("{KERNEL_ARGUMENTS} {LENDING}"),
        _ => KERNEL_ARGUMENTS.to_owned(),
    }
}

fn sockets(arguments: &mut Arguments, config: &GuestConfig) {
    for (id, kind) in [("agent", "agent"), ("monitor", "qmp")] {
        let path = escaped(&config.file(kind));
        arguments.option(
            "-chardev",
            format!("socket,id={id},path={path},server=on,wait=off"),
        );
    }
    arguments.words(&[
        "-mon",
        "chardev=monitor,mode=control",
        "-device",
        "virtio-serial-pci",
    ]);
    arguments.option(
        "-device",
        format!("virtserialport,chardev=agent,name={PORT_NAME}"),
    );
}

fn adapter(arguments: &mut Arguments, config: &GuestConfig) {
    if config.ethernet == Ethernet::Functions {
        arguments.words(&["-device", IOMMU]);
    }
    let Some(network) = network(&config.ethernet) else {
        arguments.option("-device", card(&config.ethernet));
        return;
    };
    arguments.option("-netdev", network);
    arguments.option(
        "-device",
        format!(
            "{},netdev=network,addr=5.0,multifunction=on,mac={},romfile=",
            card(&config.ethernet),
            config.mac
        ),
    );
    if let Some(socket) = &config.vfio_user {
        arguments.option("-device", device(socket, "5.1"));
    }
    if let Some(second) = &config.second {
        arguments.option("-netdev", switched("second", &second.ethernet));
        let mac = &second.mac;
        arguments.option(
            "-device",
            format!("vmxnet3,netdev=second,addr=6.0,multifunction=on,mac={mac},romfile="),
        );
        arguments.option("-device", device(&second.vfio_user, "6.1"));
    }
}

fn device(socket: &Path, place: &str) -> String {
    let socket = serde_json::json!({ "path": socket, "type": "unix" });
    let device = serde_json::json!({ "driver": "vfio-user-pci", "addr": place, "socket": socket });
    device.to_string()
}

/// A card's stream socket to the daemon.
fn switched(id: &str, path: &Path) -> String {
    let path = escaped(path);
    format!("stream,id={id},server=off,reconnect-ms=200,addr.type=unix,addr.path={path}")
}

fn card(ethernet: &Ethernet) -> String {
    match ethernet {
        Ethernet::Tap { offloads: true, .. } => "virtio-net-pci".to_owned(),
        Ethernet::Tap { .. } => format!("virtio-net-pci,{}", OFFLOADS.join("=off,") + "=off"),
        Ethernet::Switch(_) | Ethernet::Peer { .. } => "vmxnet3".to_owned(),
        Ethernet::Lent(address) => format!("vfio-pci,host={address},addr=5.0"),
        Ethernet::Functions => "igb,addr=5.0,romfile=".to_owned(),
    }
}

/// The network backend of QEMU's card; `None` without a card of QEMU.
fn network(ethernet: &Ethernet) -> Option<String> {
    Some(match ethernet {
        Ethernet::Lent(_) | Ethernet::Functions => return None,
        Ethernet::Switch(path) => switched("network", path),
        Ethernet::Peer { own, other } => format!(
            "dgram,id=network,local.type=unix,local.path={},remote.type=unix,remote.path={}",
            escaped(own),
            escaped(other)
        ),
        Ethernet::Tap { interface, .. } => {
            format!("tap,id=network,ifname={interface},script=no,downscript=no")
        }
    })
}

/// QEMU splits most option values at commas; a doubled one is a comma.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.extend([OsString::from(name), value.into()]);
    }
}

#[cfg(test)]
mod tests;
