//! A client that connects while there is no worker waits for the next one, and is not refused.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use vrdma_api::paths::SOCKET_FILE;

use crate::survive::Kept;

const VM: &str = r#"
[[adapter]]
name = "vm1"
portgroup = "blue"
"#;

/// File names of a daemon's sockets.
const SOCKETS: [(&str, SocketType); 5] = [
    ("process.sock", SocketType::SEQPACKET),
    ("c0.process.sock", SocketType::SEQPACKET),
    (SOCKET_FILE, SocketType::STREAM),
    ("vm1.vfio-user", SocketType::STREAM),
    ("vm1.ethernet", SocketType::STREAM),
];

fn try_to_connect(path: &Path, kind: SocketType) -> rustix::io::Result<()> {
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)
}

#[test]
fn nobody_is_refused_when_workers_are_killed() {
    let kept = Kept::start_with(VM);
    let (progress, ended) = (AtomicU32::new(0), AtomicBool::new(false));
    let (run_dir, ended) = (kept.run_dir(), &ended);
    thread::scope(|scope| {
        for (file, kind) in SOCKETS {
            let (path, progress) = (run_dir.join(file), &progress);
            scope.spawn(move || {
                while !ended.load(SeqCst) {
                    let connected = try_to_connect(&path, kind);
                    assert_eq!(connected, Ok(()), "{file}");
                    progress.fetch_add(1, SeqCst);
                }
            });
        }
        kept.kill_workers(&progress, ended);
    });
    assert!(progress.load(SeqCst) > SOCKETS.len() as u32);
}
