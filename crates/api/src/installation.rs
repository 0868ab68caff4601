//! Places of vRDMA's parts relative to each other: in a build, and installed under one prefix.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The library's name, which is the same as that of the system's library.
const LIBRARY: &str = "libibverbs.so.1";

/// Folders of the library, relative to that of the programs.
const LIBRARY_FOLDERS: &[&str] = &["lib", ".", "../lib/vrdma", "../lib"];

/// Finds our libibverbs: the named one, by its file or its folder, or the one beside the running program.
///
/// # Errors
/// A sentence that says what the user can do.
pub fn library(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(named) = named {
        let path = match named.is_dir() {
            true => named.join(LIBRARY),
            false => named.to_owned(),
        };
        return path
            .canonicalize()
            .map_err(|error| format!("cannot use the library {}: {error}", path.display()));
    }
    let running = running()?;
    library_beside(folder(&running)).ok_or_else(|| {
        format!(
            "{LIBRARY} is not beside {}; name it with --library",
            running.display()
        )
    })
}

/// Finds one of our programs: beside the running one, or in the folders of PATH.
///
/// # Errors
/// A sentence that says which places were searched.
pub fn program(name: &str) -> Result<PathBuf, String> {
    let running = running()?;
    let path = env::var_os("PATH").unwrap_or_default();
    program_in(folder(&running), &path, name).ok_or_else(|| {
        format!(
            "{name} is neither beside {} nor in a folder of PATH",
            running.display()
        )
    })
}

fn running() -> Result<PathBuf, String> {
    env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))
}

fn folder(program: &Path) -> &Path {
    program.parent().unwrap_or(Path::new("/"))
}

fn library_beside(folder: &Path) -> Option<PathBuf> {
    let candidates = LIBRARY_FOLDERS
        .iter()
        .map(|place| folder.join(place).join(LIBRARY));
    candidates
        .filter_map(|path| path.canonicalize().ok())
        .next()
}

fn program_in(folder: &Path, path: &OsStr, name: &str) -> Option<PathBuf> {
    std::iter::once(folder.to_owned())
        .chain(env::split_paths(path))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_build_s_folder_comes_first() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(library_beside(root.path()), None);
        fs::write(root.path().join(LIBRARY), "").unwrap();
        assert!(library_beside(root.path()).is_some());
        fs::create_dir(root.path().join("lib")).unwrap();
        fs::write(root.path().join("lib").join(LIBRARY), "").unwrap();
        let found = library_beside(root.path()).unwrap();
        assert!(folder(&found).ends_with("lib"));
    }

    #[test]
    fn a_library_is_named_by_its_file_or_its_folder() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(LIBRARY);
        let sentence = library(Some(root.path())).unwrap_err();
        assert!(sentence.contains(LIBRARY), "{sentence}");
        fs::write(&file, "").unwrap();
        let found = library(Some(root.path())).unwrap();
        assert_eq!(found, file.canonicalize().unwrap());
        assert_eq!(library(Some(&file)).unwrap(), found);
    }

    #[test]
    fn a_missing_library_is_named() {
        let sentence = library(Some(Path::new("/nonexistent.so"))).unwrap_err();
        assert!(sentence.contains("/nonexistent.so"), "{sentence}");
    }

    #[test]
    fn a_program_is_beside_before_it_is_in_the_path() {
        let root = tempfile::tempdir().unwrap();
        let (own, other) = (root.path().join("own"), root.path().join("other"));
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(other.join("vrdma-study")).unwrap();
        let path = env::join_paths([&other]).unwrap();
        let find = || program_in(&own, &path, "vrdma-study");
        assert_eq!(find(), None, "a folder is no program");
        fs::remove_dir(other.join("vrdma-study")).unwrap();
        fs::write(other.join("vrdma-study"), "").unwrap();
        assert_eq!(find(), Some(other.join("vrdma-study")));
        fs::write(own.join("vrdma-study"), "").unwrap();
        assert_eq!(find(), Some(own.join("vrdma-study")));
    }
}
