//! QMP as QEMU speaks it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

/// The other end of a QMP connection.
pub(in crate::tests) struct Lines(BufReader<UnixStream>);

impl Lines {
    pub(in crate::tests) fn new(stream: UnixStream) -> Self {
        Self(BufReader::new(stream))
    }

    /// Sends a line; the other end may be gone.
    pub(in crate::tests) fn say(&mut self, line: &Value) {
        let _ = writeln!(self.0.get_mut(), "{line}");
    }

    pub(in crate::tests) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).ok()?;
        (length > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    pub(in crate::tests) fn answer(&mut self, with: Value) {
        let request = self.next().unwrap();
        self.say(&json!({ "id": request["id"], "return": with }));
    }
}
