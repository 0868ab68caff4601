//! Starts the shards' threads, and makes the parts of each.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use vrdma_api::PollMode;
use vrdma_host::{Among, ShardId};
use vrdma_inventory::ShardOptions;
use vrdma_process::{Registry, Sessions};
use vrdma_sandbox::Confinement;
use vrdma_threads::{Disposal, Inbox, Known, Moves, Snooped};

use super::clock::Clock;
use super::lanes::{self, Lanes};
use super::poller::Poller;
use super::{Mailboxes, Shard};
use crate::legacy::Legacy;
use crate::plane::ShardCommand;
use crate::polling::pin;

/// The device that makes userfaultfds that also stop the kernel's accesses (Linux 6.1).
const USERFAULTFD: &str = "/dev/userfaultfd";

/// The parts of a shard, before its thread runs.
pub(super) struct Parts {
    pub(super) core: Option<u32>,
    pub(super) epoll: OwnedFd,
    pub(super) from: Mailboxes,
    pub(super) among: Among,
    pub(super) lanes: Lanes,
    pub(super) disposal: Disposal,
    pub(super) sessions: Sessions,
    pub(super) registry: Registry,
    pub(super) clock: Clock,
    pub(super) poll: PollMode,
    pub(super) confinement: Confinement,
    pub(super) legacy: Legacy,
    pub(super) moves: Arc<Moves>,
}

/// Starts the threads, one for each inbox. `processes` is the listening socket of [`vrdma_process`].
///
/// # Errors
/// The system is out of threads or descriptors.
pub fn start(
    inboxes: Vec<Inbox<ShardCommand>>,
    snooped: Vec<Inbox<Snooped>>,
    processes: OwnedFd,
    known: Known,
    options: &ShardOptions,
    confinement: &Confinement,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let nothing = Legacy::default();
    start_after(
        &nothing,
        inboxes,
        snooped,
        processes,
        known,
        options,
        confinement,
    )
}

/// Starts the threads after a worker that has left something.
///
/// # Errors
/// As of [`start`].
pub fn start_after(
    legacy: &Legacy,
    inboxes: Vec<Inbox<ShardCommand>>,
    snooped: Vec<Inbox<Snooped>>,
    processes: OwnedFd,
    known: Known,
    options: &ShardOptions,
    confinement: &Confinement,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let clock = Clock::start();
    let disposal = Disposal::start()?;
    let shards = inboxes.len() as u16;
    let lanes = lanes::between(inboxes.iter().map(Inbox::waker).collect());
    let mut listener = Some(processes);
    let mailboxes = inboxes.into_iter().zip(snooped);
    let mut threads = Vec::new();
    let registry = known
        .processes
        .trusting_own_user(options.trusts_own_user)
        .handing_out(options.hands_out_userfaultfd.then(userfaultfd).flatten());
    for (at, (lanes, (inbox, snooped))) in lanes.into_iter().zip(mailboxes).enumerate() {
        let id = ShardId(at as u16);
        threads.push(spawn(Parts {
            core: options.cores.get(at).copied().flatten(),
            epoll: Poller::open()?,
            from: Mailboxes { inbox, snooped },
            among: Among {
                id,
                shards,
                shared: Arc::clone(&known.addresses),
            },
            lanes,
            disposal: disposal.clone(),
            sessions: legacy.sessions(id, listener.take(), &registry),
            registry: registry.clone(),
            clock,
            poll: options.poll,
            confinement: confinement.clone(),
            legacy: legacy.clone(),
            moves: Arc::clone(&known.moves),
        })?);
    }
    Ok(threads)
}

fn spawn(parts: Parts) -> std::io::Result<JoinHandle<()>> {
    let ShardId(number) = parts.among.id;
    thread::Builder::new()
        .name(format!("shard-{number}"))
        .spawn(move || {
            precise_naps();
            if let Some(core) = parts.core {
                pin::pin_thread(core);
            }
            parts.confinement.shard();
            Shard::new(parts).run();
        })
}

/// Makes naps precise: by default the kernel rounds short sleeps up by 50 us, ten times a nap.
fn precise_naps() {
    if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
        tracing::warn!("naps of the shard will be long: {error}");
    }
}

/// Opens the device by which programs watch their memory while it moves into a file.
fn userfaultfd() -> Option<OwnedFd> {
    let options = File::options().read(true).write(true).open(USERFAULTFD);
    options.ok().map(OwnedFd::from)
}
