//! What a QEMU tells by itself of a migration.

use std::io::Write;

use serde_json::{Value, json};

use super::{Fault, World};

/// By QEMU's clock the rest goes over in five milliseconds.
pub(super) fn migration(status: &str) -> Value {
    let microseconds = match status {
        "device" => 1_000,
        _ => 6_000,
    };
    let timestamp = json!({ "seconds": 1, "microseconds": microseconds });
    json!({ "event": "MIGRATION", "data": { "status": status }, "timestamp": timestamp })
}

impl World {
    pub(super) fn events(&mut self, side: &str, command: &str) -> Vec<Value> {
        match (side, command) {
            ("source", "migrate") => self.copy(),
            ("source", "migrate-continue") => {
                (self.state, self.status) = ("postmigrate", "completed");
                self.load();
                vec![migration("device"), migration("completed")]
            }
            ("source", "migrate_cancel") => {
                (self.state, self.status) = ("running", "cancelled");
                vec![json!({ "event": "RESUME" }), migration("cancelled")]
            }
            ("source", "cont") => {
                self.state = "running";
                vec![]
            }
            _ => vec![],
        }
    }

    fn copy(&mut self) -> Vec<Value> {
        self.status = "active";
        let mut events = vec![migration("setup"), migration("active")];
        match self.fault {
            Fault::CopyTakesForEver | Fault::DaemonEndsInCopy => {}
            Fault::CopyFails => {
                self.status = "failed";
                events.push(migration("failed"));
            }
            _ => {
                (self.state, self.status) = ("finish-migrate", "pre-switchover");
                events.push(json!({ "event": "STOP" }));
                events.push(migration("pre-switchover"));
            }
        }
        events
    }

    /// The destination has it all, or ends.
    fn load(&mut self) {
        let stream = self.destination.as_mut().unwrap();
        if self.fault == Fault::DestinationEnds {
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        } else {
            writeln!(stream, "{}", migration("completed")).unwrap();
        }
    }
}
