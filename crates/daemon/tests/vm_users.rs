//! The users whose QEMU may connect to the sockets of a VM's adapter.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

/// An unprivileged user.
const NOBODY: u32 = 65534;

/// A daemon with an adapter that these users may use, and the lines of its log.
struct Daemon {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
    folder: tempfile::TempDir,
}

impl Daemon {
    fn of_users(users: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let file = folder.path().join("vrdmad.toml");
        let text = format!(
            "[daemon]\nrun_dir = {run:?}\n[[portgroup]]\nname = \"blue\"\nusers = [{users}]\n\
             [[adapter]]\nname = \"vm1\"\nportgroup = \"blue\"\n"
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vrdmad"));
        command
            .arg("--config")
            .arg(&file)
            .env_remove("NOTIFY_SOCKET");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path(), open).unwrap();
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

    fn socket(&self, kind: &str) -> PathBuf {
        self.folder.path().join("run").join(format!("vm1.{kind}"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects as another user of the daemon's group. Only root can do that.
fn connect_as(path: &Path, uid: u32) -> UnixStream {
    let path = path.to_owned();
    let connect = move || {
        let (uid, root) = (Uid::from_raw(uid), Uid::ROOT);
        set_thread_res_uid(uid, uid, root).unwrap();
        UnixStream::connect(path).unwrap()
    };
    std::thread::spawn(connect).join().unwrap()
}

#[test]
fn a_vm_of_another_user_is_refused_unless_the_user_is_named() {
    if !rustix::process::geteuid().is_root() {
        println!("not tested: only root can be another user");
        return;
    }
    let mut daemon = Daemon::of_users("");
    for kind in ["vfio-user", "ethernet"] {
        let mut stranger = connect_as(&daemon.socket(kind), NOBODY);
        assert_eq!(stranger.read(&mut [0]).unwrap(), 0, "{kind}: hung up");
        daemon.expect("refused a VM of user 65534");
    }
    let _own = UnixStream::connect(daemon.socket("vfio-user")).unwrap();
    daemon.expect("QEMU connected");
    let mut daemon = Daemon::of_users("65534");
    let _vfio_user = connect_as(&daemon.socket("vfio-user"), NOBODY);
    daemon.expect("QEMU connected");
    let _ethernet = connect_as(&daemon.socket("ethernet"), NOBODY);
    daemon.expect("Ethernet connected");
    let mut second = connect_as(&daemon.socket("vfio-user"), NOBODY);
    assert_eq!(second.read(&mut [0]).unwrap(), 0, "hung up");
    daemon.expect("refused a second client");
}
