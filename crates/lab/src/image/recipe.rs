//! The recipe of an image. Everything here is hashed into its key.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The image's release, and the source of its QEMU.
pub(super) const SUITE: &str = "trixie";
pub(super) const BACKPORTS: &str = "trixie-backports";

/// The recipe by which roots are made out of packages.
#[derive(Debug, Hash)]
pub(super) struct Recipe {
    pub(super) guest_packages: Vec<&'static str>,
    pub(super) kernel_packages: Vec<&'static str>,
    pub(super) backports: Vec<&'static str>,
    pub(super) guest_script: &'static str,
    pub(super) kernel_script: &'static str,
    pub(super) dpkg_options: &'static [&'static str],
}

/// Options for dpkg. The root is discarded when dpkg is interrupted, so dpkg need not wait for the disk. Documentation
/// is not needed in a guest, but rdma-core's tests are packaged as such.
pub(super) const DPKG_OPTIONS: &[&str] = &[
    "force-unsafe-io",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/rdma-core/*",
];

impl Recipe {
    pub(super) fn current() -> Self {
        Self {
            guest_packages: words(include_str!("../../image/guest.packages")),
            kernel_packages: words(include_str!("../../image/kernel.packages")),
            backports: words(include_str!("../../image/backports.packages")),
            guest_script: include_str!("../../image/guest.sh"),
            kernel_script: include_str!("../../image/kernel.sh"),
            dpkg_options: DPKG_OPTIONS,
        }
    }

    /// Name of the image's folder in the cache. A toolchain with another hasher builds the image again, which is
    /// harmless.
    pub(super) fn folder_name(&self) -> String {
        keyed("image", self)
    }

    /// apt's preferences (apt_preferences(5)) for what backports must provide.
    pub(super) fn preferences(&self) -> String {
        let packages = self.backports.join(" ");
        format!("Package: {packages}\nPin: release n={BACKPORTS}\nPin-Priority: 990\n")
    }
}

/// A folder name with a hash of its contents.
pub(super) fn keyed(name: &str, contents: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    format!("{name}-{:016x}", hasher.finish())
}

/// The words of a list with `#` comments.
fn words(list: &'static str) -> Vec<&'static str> {
    let lines = list
        .lines()
        .map(|line| line.split_once('#').map_or(line, |(before, _)| before));
    lines.flat_map(str::split_whitespace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_line_ends_separate_words() {
        assert_eq!(words("# x\na b # c\n\n  d"), ["a", "b", "d"]);
    }

    #[test]
    fn every_package_is_named_once_and_plainly() {
        let recipe = Recipe::current();
        for list in [
            &recipe.guest_packages,
            &recipe.kernel_packages,
            &recipe.backports,
        ] {
            let mut sorted = list.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), list.len());
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
            assert!(list.iter().all(|name| name.chars().all(plain)));
        }
    }

    #[test]
    fn a_changed_recipe_is_another_image() {
        let mut recipe = Recipe::current();
        let before = recipe.folder_name();
        assert_eq!(before, Recipe::current().folder_name());
        recipe.guest_packages.push("extra");
        assert_ne!(before, recipe.folder_name());
    }

    #[test]
    fn the_preferences_name_every_backport() {
        let text = Recipe::current().preferences();
        assert!(text.starts_with("Package: qemu-system-x86 "));
        assert!(text.contains("seabios\nPin: release n=trixie-backports\n"));
    }
}
