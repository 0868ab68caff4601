//! A test daemon with its API on a real socket, and an address where other daemons bring contexts.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use vrdma_api_client::{Client, Error};
use vrdma_inventory::{Inventory, MigrationSpec, ShardOptions};
use vrdma_sandbox::interfaces::Interfaces;
use vrdma_shard::legacy::Legacy;
use vrdma_shard::plane::{ShardCommand, Shards};
use vrdma_threads::socket::BoundSocket;

use crate::control::{Control, Facts, Memory, serve};
use crate::handover;
use crate::locations::Locations;
use crate::vacant;

/// A daemon in a temporary folder, which ends when this is dropped.
pub(super) struct Daemon {
    folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    pub(super) fn start() -> Self {
        Self::start_with(|_| |_| {})
    }

    /// Starts a daemon with a callback that sees each command to the shard, and can ask the API.
    pub(super) fn start_with<L: FnMut(&ShardCommand) + Send + 'static>(
        look: impl FnOnce(Client) -> L,
    ) -> Self {
        Self::start_as(None, look)
    }

    /// Starts a daemon that takes contexts from daemons with this key.
    pub(super) fn listening(key: &str) -> Self {
        Self::start_as(Some(key), |_| |_| {})
    }

    fn start_as<L: FnMut(&ShardCommand) + Send + 'static>(
        key: Option<&str>,
        look: impl FnOnce(Client) -> L,
    ) -> Self {
        let migration = key.map(|key| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let spec = MigrationSpec {
                listen: listener.local_addr().unwrap(),
                keys: key.parse().unwrap(),
            };
            (listener, spec)
        });
        let folder = tempfile::tempdir().unwrap();
        let api = BoundSocket::bind(&folder.path().join("api"), 0o600).unwrap();
        let run_dir = folder.path().to_owned();
        let (stop, stopped) = oneshot::channel();
        let look = look(Client::new(folder.path().join("api")).unwrap());
        let thread = std::thread::spawn(move || live(&api, &run_dir, migration, stopped, look));
        Self {
            folder,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub(super) fn raw(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(self.path("api")).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.path("api")).unwrap()
    }

    /// Sends one request, and returns the status code and body.
    pub(super) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let client = self.client();
        match client.ask(method.parse().unwrap(), path, body.to_owned()) {
            Ok(answer) => (
                answer.status,
                serde_json::from_slice(&answer.body).unwrap_or(Value::Null),
            ),
            Err(Error::Refused { status, sentence }) => (status, json!({ "error": sentence })),
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask("POST", path, &body.to_string())
    }

    /// Sends a request that is refused, and returns the status and sentence.
    pub(super) fn refused(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (status, answer) = self.ask(method, path, body);
        (status, answer["error"].as_str().unwrap().to_owned())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

fn live(
    api: &BoundSocket,
    run_dir: &Path,
    migration: Option<(TcpListener, MigrationSpec)>,
    stopped: oneshot::Receiver<()>,
    look: impl FnMut(&ShardCommand) + Send + 'static,
) {
    let (ethernet, ethernet_thread) = vrdma_ethernet::start(
        vec![vrdma_threads::mailbox().unwrap().0],
        &Default::default(),
        Default::default(),
    )
    .unwrap();
    let (shards, mut inboxes) = Shards::new(1).unwrap();
    let shard_thread = vacant::start(inboxes.remove(0), look).unwrap();
    let facts = Facts {
        config: None,
        run_dir: run_dir.to_owned(),
        shards: ShardOptions::default(),
        protections: Vec::new(),
        interfaces: Interfaces::default(),
        legacy: Legacy::default(),
        migration: migration.as_ref().map(|(_, spec)| spec.clone()),
        started: Instant::now(),
    };
    let control = Control::new(
        Inventory::new(run_dir, 1),
        shards.clone(),
        ethernet.clone(),
        facts,
        Memory {
            changes: Default::default(),
            locations: Locations::open(run_dir, BTreeMap::new()).unwrap(),
            counts: Default::default(),
        },
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = UnixListener::from_std(api.listener().try_clone().unwrap()).unwrap();
        let stop = async { drop(stopped.await) };
        let control = Arc::new(control);
        if let Some((listener, spec)) = migration {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            tokio::spawn(handover::listen(listener, spec.keys, Arc::clone(&control)));
        }
        serve(listener, control, stop, Duration::from_secs(5))
            .await
            .unwrap();
    });
    shards.stop();
    ethernet.stop();
    shard_thread.join().unwrap();
    ethernet_thread.join().unwrap();
}
