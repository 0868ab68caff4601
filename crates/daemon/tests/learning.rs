//! VMs whose adapters learn which addresses their guests may use.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use vrdma_api::{Adapter, AdapterChange, AdapterStats, paths};
use vrdma_api_client::Client;

const ADAPTERS: &str = r#"
[[portgroup]]
name = "blue"

[[adapter]]
name = "vm1"
portgroup = "blue"
mac = "52:54:00:00:00:01"
ip = "learn"

[[adapter]]
name = "vm2"
portgroup = "blue"
mac = "52:54:00:00:00:02"
ip = "learn"

[[adapter]]
name = "vm3"
portgroup = "blue"
"#;

/// Limit that is much longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Daemon {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
    folder: tempfile::TempDir,
}

impl Daemon {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vrdmad.toml");
        let run = folder.path().join("run");
        fs::write(&file, format!("[daemon]\nrun_dir = {run:?}\n{ADAPTERS}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vrdmad"));
        command
            .arg("--config")
            .arg(&file)
            .env_remove("NOTIFY_SOCKET");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut daemon = Self {
            child,
            lines,
            folder,
        };
        daemon.expect("ready");
        daemon
    }

    /// Waits for a line of the log.
    fn expect(&mut self, what: &str) {
        let found = (self.lines).any(|line| line.unwrap().contains(what));
        assert!(found, "{what}");
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join("run").join(file)
    }

    fn card(&mut self, number: u8) -> Card {
        let stream = UnixStream::connect(self.path(&format!("vm{number}.ethernet"))).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        self.expect("Ethernet connected");
        Card { number, stream }
    }

    fn client(&self) -> Client {
        Client::new(self.path("vrdmad.sock")).unwrap()
    }

    /// Returns the addresses that a VM's adapter has learned, and how many of the VM's frames were dropped for their
    /// address.
    fn learned(&self, vm: &str) -> (String, u64) {
        let path = format!("{}/stats", paths::adapter(&vm.parse().unwrap()));
        let stats: AdapterStats = self.client().get(&path).unwrap();
        let learned = stats.rdma.learned.iter().map(ToString::to_string);
        let drops = &stats.ethernet.drops;
        let dropped = drops.get("spoofed-address").copied().unwrap_or_default();
        (learned.collect::<Vec<_>>().join(" "), dropped)
    }

    fn keep(&self, vm: &str, ip: &str) {
        let change = format!(r#"{{ "ip": "{ip}" }}"#);
        let change: AdapterChange = serde_json::from_str(&change).unwrap();
        let path = paths::adapter(&vm.parse().unwrap());
        let changed: Adapter = self.client().patch(&path, &change).unwrap();
        assert_eq!(changed.ip.to_string(), ip);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// QEMU's end of a VM's Ethernet card.
struct Card {
    number: u8,
    stream: UnixStream,
}

impl Card {
    /// Sends an ARP request for 10.0.0.99 to everybody, from 10.0.0.`from`.
    fn ask(&mut self, from: u8) -> Vec<u8> {
        let mac = [0x52, 0x54, 0, 0, 0, self.number];
        let mut frame = [&[0xff; 6], &mac[..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
        frame.extend(mac);
        frame.extend([10, 0, 0, from, 0, 0, 0, 0, 0, 0, 10, 0, 0, 99]);
        let framed = [&(frame.len() as u32).to_be_bytes()[..], &frame].concat();
        self.stream.write_all(&framed).unwrap();
        framed
    }

    fn hears(&mut self, framed: &[u8]) {
        let mut heard = vec![0; framed.len()];
        self.stream.read_exact(&mut heard).unwrap();
        assert_eq!(heard, framed);
    }
}

#[test]
fn the_first_address_of_a_guest_is_its_only_one() {
    let mut daemon = Daemon::start();
    let (mut one, mut two) = (daemon.card(1), daemon.card(2));
    let mut all = daemon.card(3);
    for from in [5, 6, 5] {
        let question = one.ask(from);
        if from == 5 {
            all.hears(&question);
        }
    }
    two.ask(5);
    all.hears(&two.ask(6));
    assert_eq!(daemon.learned("vm1"), ("10.0.0.5".to_owned(), 1));
    assert_eq!(daemon.learned("vm2"), ("10.0.0.6".to_owned(), 1));
    assert_eq!(daemon.learned("vm3"), (String::new(), 0));

    let _new_guest = UnixStream::connect(daemon.path("vm1.vfio-user")).unwrap();
    daemon.expect("QEMU connected");
    assert_eq!(daemon.learned("vm1"), (String::new(), 1));
    one.ask(6);
    all.hears(&one.ask(7));
    daemon.keep("vm2", "learn");
    all.hears(&two.ask(5));
    assert_eq!(daemon.learned("vm1"), ("10.0.0.7".to_owned(), 2));
    assert_eq!(daemon.learned("vm2"), ("10.0.0.5".to_owned(), 1));

    daemon.keep("vm1", "10.0.0.8");
    one.ask(7);
    all.hears(&one.ask(8));
    assert_eq!(daemon.learned("vm1"), (String::new(), 3));
}
