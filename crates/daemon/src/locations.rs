//! Adapters of the configuration that migrations took away or brought here, for the daemon that is started next.
//!
//! ```text
//!   RUN_DIR/locations     {"adapter":"vm1","configured":false,"away":true}      one line for each, of 128 bytes
//!                         {"adapter":"vm2","configured":true,"away":false}
//! ```
//! A line counts as long as `away` in the configuration is what it was when the line was written: an edit of the
//! configuration has the last word. A line is overwritten in its place, and lies within one page of the file, so a
//! daemon that is killed leaves the old one or the new one. The run folder ends with the host's run; after that,
//! adapters are where the configuration says.
//!
//! The module does not know what a migration is, nor adapters that the API added: those end with the daemon.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vrdma_api::Name;

/// Bytes of a line: a power of two, so that no line crosses a page.
const LINE: usize = 128;

/// Most lines: more than a daemon has adapters.
const LINES_MAX: u64 = 1 << 16;

/// The file's name in the run folder.
const FILE: &str = "locations";

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Line {
    adapter: Name,
    /// Value of `away` in the configuration.
    configured: bool,
    away: bool,
}

/// The open file: a confined daemon cannot open one.
#[derive(Debug)]
pub struct Locations {
    path: PathBuf,
    file: File,
    /// `None` where a line is empty or no longer counts.
    lines: Vec<Option<Line>>,
    /// Values of `away` in the configuration.
    configured: BTreeMap<Name, bool>,
}

impl Locations {
    /// Reads the lines that the previous daemon left; `configured` has the values of `away` in the configuration. The
    /// error is a sentence.
    pub fn open(run_dir: &Path, configured: BTreeMap<Name, bool>) -> Result<Self, String> {
        let path = run_dir.join(FILE);
        let unusable = |error: io::Error| {
            format!(
                "cannot use {}, which has the adapters that migrated: {error}; let the daemon's user write to it, or remove it",
                path.display()
            )
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(unusable)?;
        let mut text = Vec::new();
        let limit = LINES_MAX * LINE as u64;
        let read = (&file).take(limit).read_to_end(&mut text);
        read.map_err(unusable)?;
        let lines = text.chunks(LINE).map(|line| {
            let line: Line = serde_json::from_slice(line).ok()?;
            (configured.get(&line.adapter) == Some(&line.configured)).then_some(line)
        });
        Ok(Self {
            lines: lines.collect(),
            path,
            file,
            configured,
        })
    }

    /// Returns the adapters that are not where the configuration says, and whether they are away.
    pub fn moved(&self) -> impl Iterator<Item = (&Name, bool)> {
        let lines = self.lines.iter().flatten();
        lines.map(|line| (&line.adapter, line.away))
    }

    /// Records that an adapter is away from now on, or here. The error is a sentence, and nothing is changed.
    pub fn set(&mut self, adapter: &Name, away: bool) -> Result<(), String> {
        let Some(&configured) = self.configured.get(adapter) else {
            return Ok(());
        };
        let is_own = |line: &Option<Line>| line.as_ref().is_some_and(|it| it.adapter == *adapter);
        let own = self.lines.iter().position(is_own);
        let place = own.or_else(|| self.lines.iter().position(Option::is_none));
        let place = place.unwrap_or(self.lines.len());
        let line = Line {
            adapter: adapter.clone(),
            configured,
            away,
        };
        self.write(place, &line).map_err(|error| {
            format!(
                "cannot note in {} where adapter {adapter} is: {error}; make room in that folder",
                self.path.display()
            )
        })?;
        if place == self.lines.len() {
            self.lines.push(None);
        }
        self.lines[place] = Some(line);
        Ok(())
    }

    fn write(&self, place: usize, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.resize(LINE - 1, b' ');
        bytes.push(b'\n');
        self.file.write_all_at(&bytes, (place * LINE) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Name {
        name.parse().unwrap()
    }

    fn open(folder: &Path, configured: &[(&str, bool)]) -> Locations {
        let configured = configured.iter();
        let configured = configured.map(|(adapter, away)| (name(adapter), *away));
        Locations::open(folder, configured.collect()).unwrap()
    }

    fn moved(locations: &Locations) -> Vec<(String, bool)> {
        let moved = locations.moved();
        moved.map(|(name, away)| (name.to_string(), away)).collect()
    }

    #[test]
    fn the_next_daemon_finds_what_moved() {
        let folder = tempfile::tempdir().unwrap();
        let file = [("vm1", false), ("vm2", true), ("vm3", false)];
        let mut first = open(folder.path(), &file);
        assert_eq!(moved(&first), []);
        first.set(&name("vm1"), true).unwrap();
        first.set(&name("vm2"), false).unwrap();
        first.set(&name("of-the-api"), true).unwrap();
        first.set(&name("vm1"), false).unwrap();
        first.set(&name("vm1"), true).unwrap();
        let both = [("vm1".to_owned(), true), ("vm2".to_owned(), false)];
        assert_eq!(moved(&open(folder.path(), &file)), both);
        let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert_eq!((text.len(), text.lines().count()), (2 * LINE, 2));
    }

    /// The file of a released version can be read.
    #[test]
    fn what_the_first_daemon_noted_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let text = include_str!("../corpus/locations1.txt");
        std::fs::write(folder.path().join(FILE), text).unwrap();
        let file = [("vm1", false), ("vm2", true), ("vm3", false)];
        let expected = [("vm1".to_owned(), true), ("vm2".to_owned(), false)];
        assert_eq!(moved(&open(folder.path(), &file)), expected);
    }

    #[test]
    fn who_edits_the_configuration_has_the_last_word() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = open(folder.path(), &[("vm1", false), ("vm2", false)]);
        first.set(&name("vm1"), true).unwrap();
        first.set(&name("vm2"), true).unwrap();
        let mut edited = open(folder.path(), &[("vm1", true), ("vm3", false)]);
        assert_eq!(moved(&edited), []);
        // A line that no longer counts makes room.
        edited.set(&name("vm3"), true).unwrap();
        let again = open(folder.path(), &[("vm1", true), ("vm3", false)]);
        assert_eq!(moved(&again), [("vm3".to_owned(), true)]);
        assert_eq!(again.lines.len(), 2);
    }

    #[test]
    fn a_line_that_is_none_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = open(folder.path(), &[("vm1", false), ("vm2", false)]);
        first.set(&name("vm1"), true).unwrap();
        first.set(&name("vm2"), true).unwrap();
        first.file.write_all_at(&[0xff; 20], 3).unwrap();
        first.file.set_len(2 * LINE as u64 - 1).unwrap();
        let damaged = open(folder.path(), &[("vm1", false), ("vm2", false)]);
        assert_eq!(moved(&damaged), [("vm2".to_owned(), true)]);
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        std::fs::create_dir(folder.path().join(FILE)).unwrap();
        let refused = Locations::open(folder.path(), BTreeMap::new()).unwrap_err();
        assert!(refused.contains("cannot use /"), "{refused}");
    }

    /// The longest name has a place.
    #[test]
    fn every_line_fits() {
        let line = Line {
            adapter: name(&"n".repeat(Name::BYTES_MAX)),
            configured: false,
            away: false,
        };
        assert!(serde_json::to_vec(&line).unwrap().len() < LINE);
    }
}
