//! The fakes. Each one logs its requests, as `SIDE WHAT`, in one common log.

mod daemons;
mod devices;
mod events;
mod files;
mod lines;
mod serve;

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Copying, HostSockets, Options};
pub(super) use lines::Lines;
use serve::{serve_daemon, serve_qemu};

/// Faults and other variations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    None,
    /// A line of the log is answered with a refusal.
    Refuses(&'static str),
    /// The step is answered with nonsense, and not done.
    Garbles(&'static str),
    ReleasesSilently,
    /// The destination's QEMU resets the restored adapter.
    ResetsAfterRestore,
    CopyFails,
    CopyTakesForEver,
    /// The copy does not end, and the destination's daemon ends meanwhile.
    DaemonEndsInCopy,
    DestinationEnds,
    OtherDevice,
    Version,
    OtherVm,
    OtherSlot,
    /// Both QEMUs have the adapter on another bus.
    BehindBridge,
    /// The guest's driver switches the adapter on during the copy.
    ConfiguresAnew,
    PrivateMemory,
    SmallMemory,
    DoesNotWait,
    OtherMac,
    ClaimedThere,
    AwayHere,
    OfProcesses,
    /// A page is lost on the way.
    LosesMemory,
    HugePages,
    /// Both daemons hand contexts over by themselves.
    DaemonsListen,
    /// Only the source's would.
    OneDaemonListens,
    /// Adapters have written more than goes in their contexts.
    AdaptersWriteMuch,
    /// QEMU has much left to send after its first pass.
    WritesMuch,
    /// The same, and the connection breaks while the VM runs at the destination.
    BreaksInPageIn,
}

/// State that both QEMUs and both daemons share.
struct World {
    fault: Fault,
    /// Another line that is refused.
    refused: Option<&'static str>,
    log: Vec<String>,
    /// URIs that QEMUs were told to migrate to, or to listen at.
    uris: Vec<String>,
    /// States of the source's VM and of its migration, as QEMU calls them.
    state: &'static str,
    status: &'static str,
    latch: u32,
    adapters: Vec<AdapterState>,
    destination: Option<UnixStream>,
    /// Whether each side is by itself, with files.
    alone: bool,
}

/// State of one adapter; `vm1` is the first one.
#[derive(Clone, Default)]
struct AdapterState {
    frozen: bool,
    released: bool,
    /// The request that restored it at the destination, until it is forgotten.
    restored: Option<Value>,
}

type Shared = Arc<Mutex<World>>;

pub(super) struct Stage {
    folder: TempDir,
    world: Shared,
}

impl Stage {
    pub(super) fn with(fault: Fault) -> Self {
        Self::with_adapters(1, fault)
    }

    pub(super) fn with_adapters(count: usize, fault: Fault) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(Mutex::new(World {
            fault,
            refused: None,
            log: Vec::new(),
            uris: Vec::new(),
            state: "running",
            status: "none",
            latch: 0x8001_f800,
            adapters: vec![AdapterState::default(); count],
            destination: None,
            alone: false,
        }));
        for side in ["source", "destination"] {
            serve_daemon(folder.path(), side, &world);
            serve_qemu(folder.path(), side, &world);
        }
        Self { folder, world }
    }

    /// Refuses this line of the log, too, from here on.
    pub(super) fn refuses(&self, line: &'static str) {
        self.world.lock().unwrap().refused = Some(line);
    }

    pub(super) fn options(&self) -> Options {
        let sockets = |side: &str| HostSockets {
            control: self.folder.path().join(format!("{side}.sock")),
            qmp: self.folder.path().join(format!("{side}.qmp")),
        };
        Options {
            adapters: (1..=self.world.lock().unwrap().adapters.len())
                .map(|number| format!("vm{number}").parse().unwrap())
                .collect(),
            source: sockets("source"),
            destination: sockets("destination"),
            memory: Copying::by("unix:/nonexistent"),
            verify: false,
        }
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.world.lock().unwrap().log.clone()
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(super) fn uris(&self) -> Vec<String> {
        self.world.lock().unwrap().uris.clone()
    }

    /// Returns the logged requests that are not queries.
    pub(super) fn changes(&self) -> Vec<String> {
        let is_question = |line: &String| {
            let asks = [" query-", " GET ", " info "];
            asks.iter().any(|word| line.contains(word)) || line.ends_with("qmp_capabilities")
        };
        self.log()
            .into_iter()
            .filter(|line| !is_question(line))
            .collect()
    }

    pub(super) fn source_runs(&self) -> bool {
        let world = self.world.lock().unwrap();
        let mut adapters = world.adapters.iter();
        world.state == "running" && adapters.all(|it| !it.frozen && !it.released)
    }

    pub(super) fn restored(&self) -> Option<Value> {
        self.world.lock().unwrap().adapters[0].restored.clone()
    }
}

/// Returns the guest address of an adapter's MSI-X table.
fn table_of(at: usize) -> u32 {
    0xfebd_4000 - 0x1_0000 * at as u32
}

/// Returns a config space as the guest has left it.
fn config_space(at: usize) -> Vec<u8> {
    let mut bytes = crate::pci::tests::config_space();
    bytes[0x10..0x14].copy_from_slice(&table_of(at).to_le_bytes());
    bytes
}

impl World {
    fn refuses(&self, line: &str) -> bool {
        matches!(self.fault, Fault::Refuses(what) if what == line) || self.refused == Some(line)
    }

    fn greeting(&self, side: &str) -> Value {
        let version = match (self.fault, side) {
            (Fault::Version, "destination") => json!({ "major": 10, "minor": 0, "micro": 0 }),
            _ => json!({ "major": 11, "minor": 1, "micro": 3 }),
        };
        json!({ "QMP": { "version": { "qemu": version, "package": "x" }, "capabilities": ["oob"] } })
    }

    /// Returns QEMU's lines for a command: events before or after the answer, as the real QEMU sends them.
    fn qemu(&mut self, side: &'static str, request: &Value) -> Vec<Value> {
        let command = request["execute"].as_str().unwrap();
        let said = request["arguments"]["command-line"].as_str();
        let mut line = format!("{side} {}", said.unwrap_or(command));
        if command == "migrate-set-capabilities" {
            line = format!(
                "{line} {}",
                request["arguments"]["capabilities"][1]["state"]
            );
        }
        self.log.push(line.clone());
        let id = &request["id"];
        if self.refuses(&line) {
            return match said {
                Some(said) => {
                    vec![json!({ "id": id, "return": format!("unknown command: '{said}'\r\n") })]
                }
                None => vec![
                    json!({ "id": id, "error": { "class": "GenericError", "desc": "no such luck" } }),
                ],
            };
        }
        let answer = json!({ "id": id, "return": self.answer(side, command, said) });
        let mut lines = vec![answer];
        let uri = request["arguments"]["uri"].as_str();
        self.uris.extend(uri.map(str::to_owned));
        match uri {
            Some(uri) if self.alone => lines.extend(self.file_events(command, uri)),
            _ => lines.extend(self.events(side, command)),
        }
        if command == "cont" {
            lines.insert(0, json!({ "event": "RESUME" }));
        }
        lines
    }

    fn answer(&mut self, side: &str, command: &str, said: Option<&str>) -> Value {
        let is_there = side == "destination";
        match command {
            "query-status" if is_there && self.fault == Fault::DoesNotWait => {
                json!({ "status": "running" })
            }
            "query-status" if is_there => json!({ "status": self.state_there() }),
            "query-status" => json!({ "status": self.state }),
            "query-migrate" if is_there && self.has_followed() => json!({ "status": "completed" }),
            "query-migrate" if is_there => json!({}),
            "query-migrate" => json!({
                "status": self.status, "error-desc": "broken pipe",
                "ram": { "total": 1 << 30, "remaining": 0, "normal": 3, "duplicate": 4, "pages-per-second": 1 },
            }),
            "query-migrate-capabilities" => {
                json!([{ "capability": "postcopy-ram", "state": self.follows() }])
            }
            "query-memdev" => {
                let is_small = is_there && self.fault == Fault::SmallMemory;
                let size = if is_small { 1 << 29 } else { 1 << 30 };
                let share = self.fault != Fault::PrivateMemory;
                json!([{ "id": "vrdma-memory", "size": size, "share": share }])
            }
            "query-pci" => self.pci(is_there),
            "add-fd" => json!({ "fdset-id": 5, "fd": 9 }),
            "human-monitor-command" => Value::String(self.monitor(said.unwrap())),
            _ => json!({}),
        }
    }

    /// Whether all memory has followed the VM to the destination.
    fn has_followed(&self) -> bool {
        self.fault == Fault::WritesMuch && self.status == "completed"
    }

    fn state_there(&self) -> &'static str {
        let is_loaded = self.status == "postcopy-active";
        if is_loaded { "paused" } else { "inmigrate" }
    }
}
