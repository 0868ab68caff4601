//! VM images, QEMU guests and networks as fixtures for tests, demo and study.
//!
//! ```text
//!  recipe (image/) --mmdebstrap--> cached image: root/ kernel, modules, disk.ext4
//!                                        |
//!  Pair --> WiredHosts (two hosts, when asked) v
//!    |----> vrdmad, one a host           |
//!    |        | two sockets an adapter   |
//!    +--> Guest = QEMU process + console log + agent channel
//!                                              | JSON lines over virtio-serial
//!                               inside the VM: lab_agent runs commands
//!
//!  place::run(server's Place, client's Place): a guest, this host, or a container on it
//! ```
//!
//! The room knows how to build, boot and command a VM. It does not know RDMA: a guest's [`Kind`](guest::Kind) names the
//! script that sets it up.
//!
//! Without the `host` feature only [`agent`] is left, which the program inside the VM is compiled from.

pub mod agent;

#[cfg(feature = "host")]
pub mod daemon;
#[cfg(feature = "host")]
pub mod guest;
#[cfg(feature = "host")]
pub mod image;
#[cfg(feature = "host")]
pub mod linked;
#[cfg(feature = "host")]
pub mod mirror;
#[cfg(feature = "host")]
pub mod namespace;
#[cfg(feature = "host")]
pub mod pair;
#[cfg(feature = "host")]
pub mod patience;
#[cfg(feature = "host")]
pub mod place;
#[cfg(feature = "host")]
pub mod precopy;
#[cfg(feature = "host")]
pub mod process;
#[cfg(feature = "host")]
pub mod relay;
#[cfg(feature = "host")]
pub mod requirements;
#[cfg(feature = "host")]
pub mod steps;
#[cfg(feature = "host")]
pub mod wire;
