//! A daemon with adapters of VMs.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use vrdma_api::{Adapter, AdapterStats, Name, paths};
use vrdma_api_client::{Client, Error, Method};

/// Limit for everything here; even a busy machine is faster.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Daemon {
    child: Child,
    log: BufReader<ChildStderr>,
    folder: tempfile::TempDir,
    pub(super) client: Client,
}

/// Returns two ends of a tunnel at which nobody listens.
pub(super) fn free_ends() -> [SocketAddr; 2] {
    let sockets = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap())
}

/// Configures a tunnel from the first end to the second.
pub(super) fn tunnel([ours, theirs]: [SocketAddr; 2]) -> String {
    format!(
        "[[uplink]]\nname = \"up\"\nkind = \"tunnel\"\nlisten = \"{ours}\"\n\
         [[peer]]\nuplink = \"up\"\naddress = \"{theirs}\"\n"
    )
}

/// Configures adapters `vm1` and `vm2` in one port group; those that are away wait for their VMs.
pub(super) fn adapters(names: &[(u8, bool)]) -> String {
    let mut text = "[[portgroup]]\nname = \"blue\"\nvni = 7\n".to_owned();
    for (number, away) in names {
        text += &format!(
            "[[adapter]]\nname = \"vm{number}\"\nportgroup = \"blue\"\ndoorbells = \"trapped\"\n\
             mac = \"52:54:00:00:00:0{number}\"\naway = {away}\n"
        );
    }
    text
}

pub(super) fn name(number: u8) -> Name {
    format!("vm{number}").parse().unwrap()
}

impl Daemon {
    pub(super) fn start(daemon: &str, rest: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vrdmad.toml");
        let run = folder.path().join("run");
        let text = format!("[daemon]\nrun_dir = {run:?}\n{daemon}{rest}");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vrdmad"));
        command.arg("--config").arg(&file);
        command.env_remove("NOTIFY_SOCKET").stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let client = Client::new(run.join(paths::SOCKET_FILE)).unwrap();
        let mut daemon = Self {
            child,
            log,
            folder,
            client,
        };
        daemon.await_line("ready");
        daemon
    }

    /// Waits for a line of the log.
    pub(super) fn await_line(&mut self, what: &str) -> String {
        let mut lines = self.log.by_ref().lines().map(Result::unwrap);
        let line = lines.find(|line| line.contains(what));
        line.unwrap_or_else(|| panic!("no line says {what}"))
    }

    /// Kills the worker; the next one is ready when this returns.
    pub(super) fn kill_worker(&mut self) {
        let keeper = self.child.id();
        let children = format!("/proc/{keeper}/task/{keeper}/children");
        let children = fs::read_to_string(children).unwrap();
        let worker = children.split_whitespace().next().unwrap().parse().unwrap();
        kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
        self.await_line("ready");
    }

    pub(super) fn socket(&self, number: u8) -> PathBuf {
        let file = format!("vm{number}.vfio-user");
        self.folder.path().join("run").join(file)
    }

    /// Returns a client for a request that takes as long as the test wants.
    pub(super) fn another_client(&self) -> Client {
        Client::new(self.client.socket()).unwrap()
    }

    pub(super) fn post(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.post_with(path, Vec::new())
    }

    pub(super) fn post_with(&self, path: &str, body: Vec<u8>) -> Result<Vec<u8>, Error> {
        let answer = self.client.ask(Method::POST, path, body)?;
        Ok(answer.body.to_vec())
    }

    pub(super) fn state(&self, number: u8) -> String {
        let stats = self.client.get(&paths::adapter_stats(&name(number)));
        let stats: AdapterStats = stats.unwrap();
        stats.rdma.state
    }

    pub(super) fn is_away(&self, number: u8) -> bool {
        let adapter = self.client.get(&paths::adapter(&name(number)));
        let adapter: Adapter = adapter.unwrap();
        adapter.away
    }

    /// Waits until the adapter has this state: the daemon hears a little later that its client is gone.
    pub(super) fn await_state(&self, number: u8, state: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.state(number) != state {
            assert!(Instant::now() < deadline, "vm{number} is never {state}");
        }
    }

    /// Waits until the adapter is away, or here: the control plane follows what shards have noticed.
    pub(super) fn await_away(&self, number: u8, away: bool) {
        let deadline = Instant::now() + PATIENCE;
        while self.is_away(number) != away {
            assert!(
                Instant::now() < deadline,
                "vm{number} is never away: {away}"
            );
        }
    }

    /// Reads the file that the next daemon will find.
    pub(super) fn locations(&self) -> String {
        fs::read_to_string(self.folder.path().join("run/locations")).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
