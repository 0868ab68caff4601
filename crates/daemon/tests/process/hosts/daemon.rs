//! `vrdmad` on one of the hosts, and a client of its control socket.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use vrdma_api::{AdapterStats, FrameStats, PortGroup, PortGroupDrops, Uplink, paths};
use vrdma_api_client::Client;
use vrdma_lab::namespace::Entry;

/// Limit on starting a program; even a busy machine is faster.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running daemon.
pub(super) struct Daemon {
    child: Child,
    folder: PathBuf,
    client: Client,
}

impl Daemon {
    /// Starts a daemon, in another namespace if one is given, and waits until it is ready.
    pub(super) fn start(folder: &Path, rest: &str, host: Option<&Entry>) -> Self {
        fs::create_dir(folder).unwrap();
        let run_dir = folder.join("run");
        let text = format!("[daemon]\nrun_dir = {run_dir:?}\n{rest}");
        let file = folder.join("vrdmad.toml");
        fs::write(&file, text).unwrap();
        let notified = UnixDatagram::bind(folder.join("notify")).unwrap();
        notified.set_read_timeout(Some(PATIENCE)).unwrap();
        let program = env!("CARGO_BIN_EXE_vrdmad");
        let mut command = Command::new(program);
        command.arg("--config").arg(file);
        command.env("NOTIFY_SOCKET", folder.join("notify"));
        let mut command = match host {
            Some(host) => host.command(&command),
            None => command,
        };
        let daemon = Self {
            child: command.spawn().unwrap(),
            client: Client::new(run_dir.join(paths::SOCKET_FILE)).unwrap(),
            folder: run_dir,
        };
        let length = notified.recv(&mut [0; 64]).unwrap();
        assert!(length > 0);
        daemon
    }

    pub(super) fn process_socket(&self) -> PathBuf {
        self.folder.join(paths::PROCESS_SOCKET_FILE)
    }

    /// Counts how often one of its threads has stopped and gone on.
    pub(super) fn switches_of(&self, thread: &str) -> u64 {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        let mut tasks = fs::read_dir(tasks)
            .unwrap()
            .map(|task| task.unwrap().path());
        let named =
            |task: &PathBuf| fs::read_to_string(task.join("comm")).unwrap().trim() == thread;
        let task = tasks.find(named).unwrap();
        let status = fs::read_to_string(task.join("status")).unwrap();
        let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
        let counts = counts.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok());
        counts.sum()
    }

    /// Returns the uplink's counters of RoCEv2 packets.
    pub(super) fn roce(&self) -> FrameStats {
        self.uplink().stats.roce
    }

    /// Returns the uplink's counters of all other frames.
    pub(super) fn ethernet(&self) -> FrameStats {
        self.uplink().stats.ethernet
    }

    fn uplink(&self) -> Uplink {
        let mut uplinks: Vec<Uplink> = self.get(paths::UPLINKS);
        uplinks.remove(0)
    }

    /// Returns the drops of an adapter.
    pub(super) fn adapter_drops(&self, adapter: &str) -> BTreeMap<String, u64> {
        let path = paths::adapter_stats(&adapter.parse().unwrap());
        let stats: AdapterStats = self.get(&path);
        stats.rdma.counters.drops
    }

    /// Returns the drops of a port group.
    pub(super) fn group_drops(&self, group: &str) -> PortGroupDrops {
        let path = paths::portgroup(&group.parse().unwrap());
        let group: PortGroup = self.get(&path);
        group.drops.unwrap()
    }

    /// Plugs in a process adapter of another tenant.
    pub(super) fn add_strange_adapter(&self, name: &str, ip: &str) {
        let body = serde_json::json!({ "name": "green", "vlan": 5 });
        self.post(paths::PORTGROUPS, &body);
        let body = serde_json::json!({
            "name": name, "portgroup": "green", "kind": "process", "ip": ip,
        });
        self.post(paths::ADAPTERS, &body);
    }

    /// Plugs in an adapter of a VM. Returns the path that its network card connects to.
    pub(super) fn add_vm(&self, name: &str) -> PathBuf {
        let body = serde_json::json!({ "name": name, "portgroup": "blue" });
        self.post(paths::ADAPTERS, &body);
        self.folder.join(format!("{name}.ethernet"))
    }

    fn post(&self, path: &str, body: &Value) {
        let _: Value = self.client.post(path, body).unwrap();
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        self.client.get(path).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
