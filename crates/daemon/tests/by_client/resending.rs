//! Pages that an adapter has written: the daemon tells the VM's client, which sends them itself.

use std::collections::BTreeMap;
use std::thread;

use rustix::io::Errno;
use vrdma_api::{FreezeRequest, WrittenMemory, paths};
use vrdma_api_client::{Error, Method};
use vrdma_driver::work::SendWork;
use vrdma_memory::PAGE;
use vrdma_pvrdma::Context;

use crate::daemon::{Daemon, adapters, name};
use crate::vmm::Write;
use crate::{LENGTH, Vm, refused, talk};

/// Messages, each to a place of its own.
const MESSAGES: u64 = 3;

/// With this, another worker may go on with the connection, and the client is told of fewer pages at a time.
const SUPERVISED: &str = "supervise = true\n";

/// Two VMs, and the memory of the first one from before: it is tracked, has been written to, and stands still.
struct Scene {
    daemon: Daemon,
    a: Vm,
    b: Vm,
    before: BTreeMap<u64, Vec<u8>>,
}

impl Scene {
    fn new(daemon: &str) -> Self {
        let daemon = Daemon::start(daemon, &adapters(&[(1, false), (2, false)]));
        let [mut a, mut b] = Vm::both(&daemon);
        talk([&mut a, &mut b], 1);
        let one = name(1);
        daemon.post(&paths::track(&one)).unwrap();
        let before = a.memory();
        b.fill(0, 0x5a);
        for id in 0..MESSAGES {
            let (address, key) = a.end.remote(id * u64::from(LENGTH));
            b.post(&SendWork::write(id, address, key).sge(b.end.sge(0, LENGTH)));
            b.await_sent(id);
        }
        refused(daemon.post(&paths::resend(&one)), "is not frozen");
        let request = serde_json::to_vec(&FreezeRequest { leaves_pages: true }).unwrap();
        let context = daemon.post_with(&paths::freeze(&one), request).unwrap();
        assert_eq!(Context::decode(&context).unwrap().page_count(), 0);
        Self {
            daemon,
            a,
            b,
            before,
        }
    }

    fn written(&self) -> u64 {
        let written = self.daemon.client.get(&paths::written(&name(1)));
        let written: WrittenMemory = written.unwrap();
        written.bytes / PAGE
    }

    /// Has the client told of the pages, and runs `client` on its side.
    fn resend<T>(&mut self, client: impl FnOnce(&Daemon, &mut Vm) -> T) -> (Resent, T) {
        let Self { daemon, a, .. } = self;
        let daemon = &*daemon;
        thread::scope(|scope| {
            let asked = scope.spawn(|| daemon.post(&paths::resend(&name(1))));
            let did = client(daemon, a);
            (asked.join().unwrap(), did)
        })
    }
}

type Resent = Result<Vec<u8>, Error>;

/// Collects the writes for this many pages, each taken by `hears`.
fn hear(pages: u64, mut hears: impl FnMut() -> Write) -> Vec<Write> {
    let mut left = pages;
    let more = std::iter::from_fn(|| {
        let write = (left > 0).then(&mut hears)?;
        left -= (write.bytes.len() as u64).div_ceil(PAGE);
        Some(write)
    });
    more.collect()
}

#[test]
fn each_page_is_told_once_and_as_it_is() {
    for daemon in ["", SUPERVISED] {
        each_page_is_told(Scene::new(daemon));
    }
}

fn each_page_is_told(mut scene: Scene) {
    let pages = scene.written();
    assert!(pages > MESSAGES * u64::from(LENGTH) / PAGE, "{pages}");
    let (resent, told) = scene.resend(|_, a| {
        hear(pages, || {
            let write = a.vmm.hear_write();
            a.vmm.answer_write(&write, 0);
            write
        })
    });
    let resent: WrittenMemory = serde_json::from_slice(&resent.unwrap()).unwrap();
    assert_eq!(resent.bytes, pages * PAGE);
    let end = scene.a.memory();
    let mut copied = scene.before;
    for write in &told {
        let pieces = write.bytes.chunks(PAGE as usize);
        for (at, bytes) in (write.address..).step_by(PAGE as usize).zip(pieces) {
            let page = &end[&at];
            assert_eq!(bytes, &page[..bytes.len()]);
            copied.insert(at, page.clone());
        }
    }
    assert!(
        copied == end,
        "the client has heard of all that the device wrote"
    );
}

#[test]
fn the_adapter_does_not_go_on_before_the_client_has_answered() {
    let mut scene = Scene::new("");
    let pages = scene.written();
    let (resent, ()) = scene.resend(|daemon, a| {
        let all = hear(pages, || a.vmm.hear_write());
        refused(daemon.post(&paths::thaw(&name(1))), "thaw it in a moment");
        all.iter().for_each(|write| a.vmm.answer_write(write, 0));
        // Retried until the daemon has heard the answers.
        while daemon.post(&paths::thaw(&name(1))).is_err() {}
    });
    refused(resent, "was thawed");
    talk([&mut scene.a, &mut scene.b], 2);
}

#[test]
fn a_client_that_refuses_or_leaves_is_told_of() {
    let mut scene = Scene::new("");
    let (resent, ()) = scene.resend(|_, a| {
        let first = a.vmm.hear_write();
        a.vmm
            .answer_write(&first, Errno::FAULT.raw_os_error() as u32);
        a.vmm.hang_up();
    });
    refused(resent, "did not take what");
    let mut scene = Scene::new("");
    let (resent, ()) = scene.resend(|_, a| {
        a.vmm.hear_write();
        a.vmm.hang_up();
    });
    refused(resent, "Connection reset");
}

/// After a crash the client may still write old bytes for the previous worker, so the next one waits.
#[test]
fn the_next_worker_waits_for_the_answers_to_the_one_before() {
    let mut scene = Scene::new(SUPERVISED);
    let pages = scene.written();
    let client = scene.daemon.another_client();
    let asked =
        thread::spawn(move || client.ask(Method::POST, &paths::resend(&name(1)), Vec::new()));
    let all = hear(pages, || scene.a.vmm.hear_write());
    scene.daemon.kill_worker();
    assert!(asked.join().unwrap().is_err(), "nobody was left to answer");
    assert_eq!(scene.daemon.state(1), "frozen");
    let Scene { daemon, a, b, .. } = &mut scene;
    let (address, key) = a.end.remote(0);
    b.fill(0, 0x11);
    b.post(&SendWork::write(50, address, key).sge(b.end.sge(0, LENGTH)));
    all.iter().for_each(|write| a.vmm.answer_write(write, 0));
    daemon.await_state(1, "active");
    b.await_sent(50);
    assert_eq!(a.bytes(0), b.bytes(0));
    talk([a, b], 2);
}
