//! Events that a QEMU sends during a migration.

use std::io::Write;

use serde_json::{Value, json};

use super::{Fault, World};

/// Makes an event. By QEMU's clock, the rest takes five milliseconds.
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
            ("source", "migrate-start-postcopy") => self.wait_for_continue(),
            ("source", "migrate-continue") if self.follows() => {
                self.status = "postcopy-active";
                vec![migration("device"), migration("postcopy-active")]
            }
            ("destination", "cont") if self.follows() => {
                let breaks = self.fault == Fault::BreaksInPageIn;
                self.status = if breaks {
                    "postcopy-paused"
                } else {
                    "completed"
                };
                vec![]
            }
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
            Fault::WritesMuch | Fault::BreaksInPageIn => {
                events.push(json!({ "event": "MIGRATION_PASS", "data": { "pass": 1 } }));
                events.push(json!({ "event": "MIGRATION_PASS", "data": { "pass": 2 } }));
            }
            _ => events.extend(self.wait_for_continue()),
        }
        events
    }

    fn wait_for_continue(&mut self) -> Vec<Value> {
        (self.state, self.status) = ("finish-migrate", "pre-switchover");
        vec![json!({ "event": "STOP" }), migration("pre-switchover")]
    }

    /// Whether memory follows the VM: the guest writes too much for a copy, or its connection breaks meanwhile.
    pub(super) fn follows(&self) -> bool {
        matches!(self.fault, Fault::WritesMuch | Fault::BreaksInPageIn)
    }

    /// The destination has loaded everything, or ends.
    fn load(&mut self) {
        let stream = self.destination.as_mut().unwrap();
        if self.fault == Fault::DestinationEnds {
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        } else {
            writeln!(stream, "{}", migration("completed")).unwrap();
        }
    }
}
