//! JSON files, read whole and written whole.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let value = serde_json::from_slice(&text);
    value
        .map(Some)
        .with_context(|| format!("{} is damaged or no file of a study", path.display()))
}

pub(super) fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    write_bytes(path, &text)
}

/// Writes a file completely or not at all.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = path.with_extension("partial");
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&partial, bytes))
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
