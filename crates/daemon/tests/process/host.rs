//! Shards that serve clients.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{JoinHandle, ThreadId};

use tempfile::TempDir;
use vrdma_inventory::ShardOptions;
use vrdma_provider::socket;
use vrdma_sandbox::Confinement;
use vrdma_shard::{legacy::Legacy, plane::Shards, process_socket::ProcessSocket, shard};
use vrdma_switch::Policy;

use crate::adapters::{block_on, shards, specs};

/// Shards with process adapters `c0`, `c1`, … in one port group, at 10.0.0.1, 10.0.0.2, …
pub(crate) struct Host {
    pub(crate) handle: Shards,
    /// Limits of the adapters.
    pub(crate) policies: Vec<Arc<Policy>>,
    folder: TempDir,
    threads: Vec<JoinHandle<()>>,
    _socket: ProcessSocket,
}

impl Host {
    pub(crate) fn with_adapters(count: u8) -> Self {
        Self::with(count, &ShardOptions::unpinned(shards()))
    }

    pub(crate) fn with(count: u8, options: &ShardOptions) -> Self {
        let mut host = Self::starting(options);
        host.furnish(count);
        host
    }

    /// Starts the shards, still without adapters.
    pub(crate) fn starting(options: &ShardOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = ProcessSocket::bind(folder.path(), &Legacy::default()).unwrap();
        let count_of_shards = options.cores.len();
        let (handle, inboxes) = Shards::new(count_of_shards).unwrap();
        let snooped = (0..count_of_shards)
            .map(|_| vrdma_threads::mailbox().unwrap().1)
            .collect();
        let listener = socket.listener().unwrap();
        let known = handle.known().clone();
        let confinement = Confinement::new([folder.path().to_owned()]);
        let threads = shard::start(inboxes, snooped, listener, known, options, &confinement);
        Self {
            handle,
            policies: Vec::new(),
            folder,
            threads: threads.unwrap(),
            _socket: socket,
        }
    }

    /// Adds the adapters, and accepts clients.
    pub(crate) fn furnish(&mut self, count: u8) {
        for spec in specs(count, self.folder.path()) {
            self.policies.push(Arc::clone(&spec.policy));
            block_on(self.handle.add_adapter(spec)).unwrap();
        }
        block_on(self.handle.go_on()).unwrap();
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(socket::SOCKET_FILE)
    }

    /// Returns the threads of the shards.
    pub(crate) fn shard_threads(&self) -> impl Iterator<Item = ThreadId> {
        self.threads.iter().map(|thread| thread.thread().id())
    }

    /// Counts the objects of an adapter: protection domains, regions, CQs, QPs.
    pub(crate) fn objects(&self, adapter: u32) -> [u32; 4] {
        let snapshots = block_on(self.handle.snapshot()).all;
        let snapshot = snapshots.iter().find(|snapshot| snapshot.port.0 == adapter);
        let objects = snapshot.unwrap().rdma.objects;
        [objects.pd, objects.mr, objects.cq, objects.qp]
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.handle.stop();
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "a shard panicked"
            );
        }
    }
}
