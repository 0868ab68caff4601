//! QEMUs that write their state into files and read it from files.

use std::fs;

use serde_json::Value;

use super::events::migration;
use super::{Fault, Stage, World};
use crate::HostSockets;
use crate::snapshot;

/// Bytes that QEMU writes.
pub(in crate::tests) const MEMORY: &[u8] = b"all of it";

impl Stage {
    /// Two hosts that do not know each other: the VM of the first stands still, the QEMU of the second waits.
    pub(in crate::tests) fn alone(fault: Fault) -> Self {
        let stage = Self::with(fault);
        let mut world = stage.world.lock().unwrap();
        (world.alone, world.state) = (true, "paused");
        drop(world);
        stage
    }

    pub(in crate::tests) fn snapshot(&self, side: &str) -> snapshot::Options {
        let folder = self.folder.path();
        snapshot::Options {
            adapter: "vm1".parse().unwrap(),
            sockets: HostSockets {
                control: folder.join(format!("{side}.sock")),
                qmp: folder.join(format!("{side}.qmp")),
            },
            file: folder.join("vm1.adapter"),
            memory: folder.join("vm1.memory"),
            keep_connections: false,
        }
    }

    /// Returns the names in the stage's folder that are no sockets, in order.
    pub(in crate::tests) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names
            .filter(|name| !name.ends_with(".sock") && !name.ends_with(".qmp"))
            .collect();
        names.sort();
        names
    }
}

impl World {
    pub(super) fn file_events(&mut self, command: &str, uri: &str) -> Vec<Value> {
        let path = uri.strip_prefix("file:").unwrap();
        let status = match (self.fault, command) {
            (Fault::CopyFails, _) => "failed",
            (Fault::CopyTakesForEver, _) => "active",
            (_, "migrate") => {
                fs::write(path, MEMORY).unwrap();
                self.state = "postmigrate";
                "completed"
            }
            _ => {
                assert_eq!(fs::read(path).unwrap(), MEMORY);
                "completed"
            }
        };
        if command == "migrate" {
            self.status = status;
        }
        vec![migration("setup"), migration(status)]
    }
}
