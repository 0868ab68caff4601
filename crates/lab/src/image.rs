//! The guests' image: a Debian root with the stock driver, cached per user.
//!
//! ```text
//! $VRDMA_CACHE or $XDG_CACHE_HOME/vrdma or ~/.cache/vrdma
//!   image-KEY/              KEY = hash of the recipe, so a changed recipe is another image
//!     root/                 the unpacked root: QEMU for the host, and the disk's contents
//!     root/boot/vmlinuz     the guests' kernel
//!     root/boot/early/      a busybox and the modules that mount the disk
//!     disk.ext4             the root as a disk, shared read-only by all guests
//!     kvm                   whether KVM runs this kernel here (see `accelerator`)
//!   image-KEY.partial/      a build at work, renamed when it is complete
//!   image-KEY.lock          held by the process that builds
//!   NAME-KEY/root/          a root of other programs (see `Root`), or what was built from sources (see `Built`)
//! ```

mod accelerator;
mod archive;
mod build;
mod initramfs;
mod qemu;
mod recipe;
mod root;
mod sources;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

pub use accelerator::Accelerator;
pub(crate) use initramfs::Initramfs;
pub use qemu::qemu;
use recipe::Recipe;
pub use root::{Contents, Release, Root};
pub use sources::{Built, Sources};

/// Overrides the folder of all caches.
pub const CACHE_VARIABLE: &str = "VRDMA_CACHE";

/// A complete image.
#[derive(Debug, Clone)]
pub struct Image {
    folder: PathBuf,
}

impl Image {
    /// The image of the current recipe, built first when it is missing.
    ///
    /// # Errors
    /// When the build fails; nothing is left in the image's place then.
    pub fn ensure() -> Result<Self> {
        match Self::find()? {
            Some(image) => Ok(image),
            None => build::build(&Recipe::current(), &cache_folder()?),
        }
    }

    /// The image of the current recipe, if it has been built.
    ///
    /// # Errors
    /// When no cache folder can be named.
    pub fn find() -> Result<Option<Self>> {
        let folder = cache_folder()?.join(Recipe::current().folder_name());
        Ok(folder.is_dir().then_some(Self { folder }))
    }

    #[cfg(test)]
    pub(crate) fn at(folder: &str) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The folder of the image.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The guests' kernel.
    #[must_use]
    pub fn kernel(&self) -> PathBuf {
        self.folder.join("root/boot/vmlinuz")
    }

    /// The guests' disk.
    #[must_use]
    pub fn disk(&self) -> PathBuf {
        self.folder.join("disk.ext4")
    }

    /// A folder of the image's root, for programs of the host.
    #[must_use]
    pub fn root(&self, path: &str) -> PathBuf {
        self.folder.join("root").join(path)
    }

    /// Runs a program of the image on the host, without a chroot and so
    /// without privileges: through the image's own loader and libraries.
    #[must_use]
    pub fn program(&self, path: &str) -> Command {
        root_program(&self.folder.join("root"), path)
    }
}

fn root_program(root: &Path, path: &str) -> Command {
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let mut command = Command::new(root.join("usr/lib64/ld-linux-x86-64.so.2"));
    command
        .arg("--library-path")
        .arg(&libraries)
        .arg(root.join(path));
    command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
    command
}

/// The folder of all caches, which need not exist.
///
/// # Errors
/// When the environment names none.
pub fn cache_folder() -> Result<PathBuf> {
    let set = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set(CACHE_VARIABLE)
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("vrdma")))
        .or_else(|| Some(set("HOME")?.join(".cache/vrdma")))
        .with_context(|| {
            format!("neither {CACHE_VARIABLE} nor HOME is set: where should the image be kept?")
        })
}
