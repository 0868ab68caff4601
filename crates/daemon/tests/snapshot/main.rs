//! The control API's part of a snapshot, with a QEMU that has greeted and whose guest has no driver yet.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, Stdio};

use vrdma_api::{ArrivedContext, Name, RestoreRequest, paths};
use vrdma_api_client::{Client, Error, Method};
use vrdma_pvrdma::Context;

struct Daemon {
    child: Child,
    /// The daemon's log, which has to go somewhere.
    _log: BufReader<ChildStderr>,
    folder: tempfile::TempDir,
    client: Client,
    name: Name,
}

impl Daemon {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("vrdmad.toml");
        let text = format!(
            "[daemon]\nrun_dir = {:?}\n[[portgroup]]\nname = \"blue\"\n\
             [[adapter]]\nname = \"vm1\"\nportgroup = \"blue\"\n",
            folder.path().join("run")
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vrdmad"));
        command
            .arg("--config")
            .arg(&file)
            .env_remove("NOTIFY_SOCKET");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        assert!(
            log.by_ref()
                .lines()
                .any(|line| line.unwrap().contains("ready"))
        );
        Self {
            child,
            _log: log,
            client: Client::new(folder.path().join("run").join(paths::SOCKET_FILE)).unwrap(),
            folder,
            name: "vm1".parse().unwrap(),
        }
    }

    /// Connects as a QEMU that has sent its version and received the daemon's.
    fn qemu(&self) -> UnixStream {
        let socket = self.folder.path().join("run/vm1.vfio-user");
        let mut qemu = UnixStream::connect(socket).unwrap();
        let mut greeting = vec![0, 0, 1, 0];
        let text = b"{\"capabilities\": {\"max_msg_fds\": 8}}\0";
        let length = 16 + 4 + text.len() as u32;
        greeting.extend(length.to_le_bytes());
        greeting.extend([0; 8]);
        greeting.extend([0; 4]);
        greeting.extend(text);
        qemu.write_all(&greeting).unwrap();
        let mut head = [0; 16];
        qemu.read_exact(&mut head).unwrap();
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        qemu.read_exact(&mut vec![0; length as usize - 16]).unwrap();
        qemu
    }

    fn post(&self, path: &str, body: Vec<u8>) -> Result<Vec<u8>, Error> {
        let answer = self.client.ask(Method::POST, path, body)?;
        Ok(answer.body.to_vec())
    }

    fn put(&self, context: Vec<u8>) -> Result<ArrivedContext, Error> {
        let path = paths::context(&self.name);
        let answer = self.client.ask(Method::PUT, &path, context)?;
        Ok(serde_json::from_slice(&answer.body).unwrap())
    }

    /// Saves the adapter, and returns its context.
    fn saved(&self) -> Vec<u8> {
        self.post(&paths::track(&self.name), Vec::new()).unwrap();
        self.post(&paths::save(&self.name), Vec::new()).unwrap()
    }

    fn state(&self) -> String {
        let stats = self.client.get(&paths::adapter_stats(&self.name));
        let stats: vrdma_api::AdapterStats = stats.unwrap();
        stats.rdma.state
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>, expected: &str) {
    match outcome {
        Err(Error::Refused { sentence, .. }) => assert!(sentence.contains(expected), "{sentence}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_adapter_is_saved_works_on_and_is_restored_in_another_qemu() {
    let daemon = Daemon::start();
    let name = &daemon.name;
    let qemu = daemon.qemu();
    refused(
        daemon.post(&paths::save(name), Vec::new()),
        "is not tracked",
    );
    let bytes = daemon.saved();
    assert_eq!(daemon.state(), "reset", "and not frozen");
    let context = Context::decode(&bytes).unwrap();
    assert_eq!((context.records.len(), context.pages.len()), (1, 0));
    // The adapter is no longer tracked: the next snapshot begins with that.
    refused(
        daemon.post(&paths::save(name), Vec::new()),
        "is not tracked",
    );
    drop(qemu);
    let again = daemon.qemu();
    let arrived = daemon.put(bytes.clone()).unwrap();
    assert_eq!(arrived.records, 1);
    let request = serde_json::to_vec(&RestoreRequest::default()).unwrap();
    daemon.post(&paths::restore(name), request.clone()).unwrap();
    assert_eq!(daemon.state(), "frozen");
    refused(daemon.post(&paths::save(name), Vec::new()), "not tracked");
    refused(
        daemon.post(&paths::restore(name), request),
        "is restored already",
    );
    daemon.post(&paths::activate(name), Vec::new()).unwrap();
    assert_eq!(daemon.state(), "reset");
    let state = daemon.client.get(&paths::adapter_state(name));
    let state: vrdma_api::AdapterState = state.unwrap();
    assert_eq!((&*state.rdma.state, state.objects.qps.len()), ("reset", 0));
    let adapter: vrdma_api::Adapter = daemon.client.get(&paths::adapter(name)).unwrap();
    assert!(!adapter.away);
    drop(again);
}

/// Tells where the guest has BAR 0, as QEMU does, and waits for the daemon's reply.
fn map_bar_0(qemu: &mut UnixStream, address: u32) {
    say_bar_0(qemu, address);
    hear_reply(qemu);
}

/// Sends a region write of configuration space (vfio-user).
fn say_bar_0(qemu: &mut UnixStream, address: u32) {
    const REGION_WRITE: u16 = 10;
    const CONFIG: u32 = 7;
    const BAR_0: u64 = 0x10;
    let mut message = vec![1, 0];
    message.extend(REGION_WRITE.to_le_bytes());
    message.extend(36_u32.to_le_bytes());
    message.extend([0; 8]);
    message.extend(BAR_0.to_le_bytes());
    message.extend(CONFIG.to_le_bytes());
    message.extend(4_u32.to_le_bytes());
    message.extend(address.to_le_bytes());
    qemu.write_all(&message).unwrap();
}

fn hear_reply(qemu: &mut UnixStream) {
    let mut reply = [0; 32];
    qemu.read_exact(&mut reply).unwrap();
    assert_eq!(reply[12..16], [0; 4], "no error");
}

/// Such as after a VM's two adapters have changed places.
#[test]
fn an_adapter_that_qemu_has_elsewhere_is_not_restored() {
    let daemon = Daemon::start();
    let name = &daemon.name;
    let mut qemu = daemon.qemu();
    map_bar_0(&mut qemu, 0xfebd_4000);
    let bytes = daemon.saved();
    drop(qemu);
    let mut again = daemon.qemu();
    map_bar_0(&mut again, 0xfebe_0000);
    daemon.put(bytes).unwrap();
    let restore = || {
        let request = serde_json::to_vec(&RestoreRequest::default()).unwrap();
        daemon.post(&paths::restore(name), request)
    };
    refused(restore(), "elsewhere than the VM had it");
    assert_eq!(daemon.state(), "reset");
    map_bar_0(&mut again, 0xfebd_4000);
    restore().unwrap();
    assert_eq!(daemon.state(), "frozen");
}

/// Post-copy: the guest runs while its memory follows.
#[test]
fn an_adapter_whose_memory_follows_is_made_when_it_is_activated() {
    let daemon = Daemon::start();
    let name = &daemon.name;
    let mut qemu = daemon.qemu();
    let bytes = daemon.saved();
    daemon.put(bytes).unwrap();
    let request = RestoreRequest {
        memory_follows: true,
        ..RestoreRequest::default()
    };
    let request = serde_json::to_vec(&request).unwrap();
    let restore = || daemon.post(&paths::restore(name), request.clone());
    let is_restored = || {
        let arrived = daemon.client.get(&paths::context(name));
        let arrived: ArrivedContext = arrived.unwrap();
        arrived.restored
    };
    restore().unwrap();
    assert!(is_restored());
    refused(restore(), "is restored already");
    refused(
        daemon.post(&paths::track(name), Vec::new()),
        "waits to be activated",
    );
    say_bar_0(&mut qemu, 0xfebd_4000);
    qemu.set_nonblocking(true).unwrap();
    // The daemon answers other requests, but not QEMU.
    assert!(is_restored());
    let unheard = qemu.read(&mut [0]).unwrap_err();
    assert_eq!(unheard.kind(), std::io::ErrorKind::WouldBlock);
    qemu.set_nonblocking(false).unwrap();
    daemon.post(&paths::activate(name), Vec::new()).unwrap();
    hear_reply(&mut qemu);
    assert_eq!(daemon.state(), "reset");
}

#[test]
fn a_qemu_that_ends_before_its_memory_is_there_is_forgotten() {
    let daemon = Daemon::start();
    let name = &daemon.name;
    let qemu = daemon.qemu();
    let bytes = daemon.saved();
    daemon.put(bytes).unwrap();
    let request = br#"{ "memory_follows": true }"#;
    daemon
        .post(&paths::restore(name), request.to_vec())
        .unwrap();
    drop(qemu);
    // The next QEMU is let in when the first one is gone, and not before.
    let mut next = daemon.qemu();
    map_bar_0(&mut next, 0xfebd_4000);
    refused(
        daemon.post(&paths::activate(name), Vec::new()),
        "was not restored",
    );
}

#[test]
fn a_context_that_is_none_or_of_another_adapter_is_refused() {
    let daemon = Daemon::start();
    let _qemu = daemon.qemu();
    let bytes = daemon.saved();
    let changed = |at: usize| {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        changed
    };
    refused(daemon.put(changed(0)), "this is not the context");
    refused(daemon.put(changed(8)), "the context has version 0");
    refused(daemon.put(changed(40)), "its digest is another one");
    refused(
        daemon.put(bytes[..bytes.len() - 1].to_vec()),
        "its digest is another one",
    );
    let mut other = Context::decode(&bytes).unwrap();
    other.mac.0[5] ^= 1;
    refused(daemon.put(other.encode()), "give both the same");
}
