//! A guest's console, which QEMU writes to a file.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a log that are shown.
const TAIL_LINES: usize = 25;

/// What Linux prints when it gives up.
const PANIC: &str = "Kernel panic";

#[derive(Debug, Clone)]
pub(super) struct Console {
    path: PathBuf,
}

impl Console {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn tail(&self) -> String {
        tail(&self.path)
    }

    pub(super) fn shows_panic(&self) -> bool {
        read(&self.path).contains(PANIC)
    }
}

/// The last lines of a log, without a terminal's control characters; empty
/// when there is none.
pub(crate) fn tail(path: &Path) -> String {
    let text = read(path);
    let lines: Vec<&str> = text.lines().collect();
    let lines = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    lines
        .join("\n")
        .replace(|c: char| c.is_control() && c != '\n' && c != '\t', "")
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_short_and_harmless() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let lines: String = (0..100).map(|line| format!("line {line}\r\n")).collect();
        fs::write(&path, lines + "\u{1b}c\u{fffd} Kernel panic - not syncing").unwrap();
        let text = tail(&path);
        assert_eq!(text.lines().count(), TAIL_LINES);
        assert!(text.ends_with("c\u{fffd} Kernel panic - not syncing"));
        assert!(Console::new(path).shows_panic());
        assert_eq!(tail(Path::new("/nonexistent")), "");
    }
}
