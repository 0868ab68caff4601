//! Where our libibverbs is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Its name, which is also that of the system's.
const FILE: &str = "libibverbs.so.1";

/// Where it is beside this program: in a build, and installed under one prefix.
const PLACES: &[&str] = &["lib", ".", "../lib/vrdma", "../lib"];

/// The library named, or the one beside this program. The error is a sentence.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = named {
        return path
            .canonicalize()
            .map_err(|error| format!("cannot use the library {}: {error}", path.display()));
    }
    let program =
        std::env::current_exe().map_err(|error| format!("cannot tell where vrdma is: {error}"))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    beside(folder).ok_or_else(|| {
        format!(
            "{FILE} is not beside {}; name it with --library",
            program.display()
        )
    })
}

fn beside(folder: &Path) -> Option<PathBuf> {
    let candidates = PLACES.iter().map(|place| folder.join(place).join(FILE));
    candidates
        .filter_map(|path| path.canonicalize().ok())
        .next()
}

/// The value of LD_PRELOAD: ours first, then what was there.
pub(super) fn preloads(library: &Path) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_s_folder_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(beside(folder.path()), None);
        std::fs::write(folder.path().join(FILE), "").unwrap();
        assert!(beside(folder.path()).is_some());
        std::fs::create_dir(folder.path().join("lib")).unwrap();
        std::fs::write(folder.path().join("lib").join(FILE), "").unwrap();
        assert!(
            beside(folder.path())
                .unwrap()
                .parent()
                .unwrap()
                .ends_with("lib")
        );
    }

    #[test]
    fn a_missing_library_is_named() {
        let sentence = find(Some(Path::new("/nonexistent.so"))).unwrap_err();
        assert!(sentence.contains("/nonexistent.so"), "{sentence}");
    }
}
