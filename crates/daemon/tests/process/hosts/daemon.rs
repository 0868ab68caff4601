//! `vrdmad` on one of the hosts, and a client of its control socket.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use serde::de::DeserializeOwned;
use vrdma_api::{AdapterStats, FrameStats, Uplink, paths};

use vrdma_lab::namespace::Entry;

/// A busy machine starts a program sooner.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running daemon.
pub(super) struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    /// Starts one, in another namespace if that is stated, and waits until it is ready.
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
            folder: run_dir,
        };
        let length = notified.recv(&mut [0; 64]).unwrap();
        assert!(length > 0);
        daemon
    }

    pub(super) fn process_socket(&self) -> PathBuf {
        self.folder.join(paths::PROCESS_SOCKET_FILE)
    }

    /// What the uplink counts of RoCEv2 packets.
    pub(super) fn roce(&self) -> FrameStats {
        self.uplink().stats.roce
    }

    /// What it counts of all else.
    pub(super) fn ethernet(&self) -> FrameStats {
        self.uplink().stats.ethernet
    }

    fn uplink(&self) -> Uplink {
        let mut uplinks: Vec<Uplink> = self.get(paths::UPLINKS);
        uplinks.remove(0)
    }

    /// What an adapter has thrown away.
    pub(super) fn adapter_drops(&self, adapter: &str) -> BTreeMap<String, u64> {
        let path = paths::adapter_stats(&adapter.parse().unwrap());
        let stats: AdapterStats = self.get(&path);
        stats.rdma.counters.drops
    }

    /// Plugs an adapter of processes in.
    pub(super) fn add_adapter(&self, name: &str, ip: &str) {
        self.add_adapter_of("blue", name, ip);
    }

    /// Plugs an adapter of processes of another tenant in.
    pub(super) fn add_strange_adapter(&self, name: &str, ip: &str) {
        let body = serde_json::json!({ "name": "green", "vlan": 5 });
        self.ask("POST", paths::PORTGROUPS, &body.to_string());
        self.add_adapter_of("green", name, ip);
    }

    fn add_adapter_of(&self, group: &str, name: &str, ip: &str) {
        let body = serde_json::json!({
            "name": name, "portgroup": group, "kind": "process", "ip": ip,
        });
        self.ask("POST", paths::ADAPTERS, &body.to_string());
    }

    /// Plugs an adapter of a VM in; where its network card connects.
    pub(super) fn add_vm(&self, name: &str) -> PathBuf {
        let body = serde_json::json!({ "name": name, "portgroup": "blue" });
        self.ask("POST", paths::ADAPTERS, &body.to_string());
        self.folder.join(format!("{name}.ethernet"))
    }

    /// Unplugs one.
    pub(super) fn remove_adapter(&self, name: &str) {
        self.ask("DELETE", &paths::adapter(&name.parse().unwrap()), "");
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        serde_json::from_str(&self.ask("GET", path, "")).unwrap()
    }

    /// Asks for something; the answer must be a success.
    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = UnixStream::connect(self.folder.join(paths::SOCKET_FILE)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: vrdmad\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 2"), "{path}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        body.to_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
