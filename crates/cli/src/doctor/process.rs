//! What programs of this host need to use adapters.

use std::io::ErrorKind;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use vrdma_api::{Adapter, AdapterKind, Status, paths};

use super::{Check, Verdict};

/// Checks the socket, the adapters and the library.
pub(super) fn checks(status: &Status) -> Vec<Check> {
    let socket = status.run_dir.join(paths::PROCESS_SOCKET_FILE);
    let of_processes = |adapter: &&Adapter| adapter.kind == AdapterKind::Process;
    let adapters: Vec<_> = status.adapters.iter().filter(of_processes).collect();
    let mut checks = vec![
        judge_socket(
            &socket,
            rustix::fs::access(&socket, rustix::fs::Access::WRITE_OK).is_ok(),
            adapters.len(),
        ),
        judge_library(vrdma_api::installation::library(None)),
    ];
    checks.extend(judge_users(&adapters));
    checks
}

/// Tells who may use the adapters. Containers may have users of their own, which are not the daemon's user.
pub(super) fn judge_users(adapters: &[&Adapter]) -> Option<Check> {
    let first = adapters.first()?;
    let named = |adapter: &&&Adapter| !adapter.users.is_empty() || !adapter.groups.is_empty();
    let named = adapters.iter().filter(named).count();
    let sentence = match named {
        0 => format!(
            "only vrdmad's user may use the adapters of kind process; for a container that runs as another user: `vrdma adapter set {} --user NUMBER`",
            first.name
        ),
        _ => format!(
            "{named} of {} adapters of kind process name users or groups besides vrdmad's user",
            adapters.len()
        ),
    };
    Some(Check::ok("users", sentence))
}

pub(super) fn judge_socket(socket: &Path, is_ours: bool, adapters: usize) -> Check {
    let shown = socket.display();
    if !is_ours {
        return Check::warn(
            "processes",
            format!(
                "you may not open {shown}; join the group of vrdmad's user to run programs on adapters"
            ),
        );
    }
    Check::ok(
        "processes",
        format!("programs open adapters at {shown}; {adapters} of kind process"),
    )
}

/// Checks what any program of this environment finds: in a container, this may be all that it sees of the daemon.
pub(super) fn of_programs(has_daemon: bool) -> Check {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let named = variable(paths::PROCESS_SOCKET_VARIABLE);
    let folder = variable("XDG_RUNTIME_DIR");
    let socket = paths::process_socket(
        named.as_deref().map(Path::new),
        folder.as_deref().map(Path::new),
    );
    judge_programs(&socket, reach(&socket), has_daemon)
}

/// Connects as the library does, and hangs up.
fn reach(socket: &Path) -> Result<(), ErrorKind> {
    let connect = || {
        let ours = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
        rustix::net::connect(&ours, &SocketAddrUnix::new(socket)?)
    };
    connect().map_err(|error: Errno| std::io::Error::from(error).kind())
}

pub(super) fn judge_programs(
    socket: &Path,
    reached: Result<(), ErrorKind>,
    has_daemon: bool,
) -> Check {
    let (name, shown) = ("programs", socket.display());
    let variable = paths::PROCESS_SOCKET_VARIABLE;
    let why = match reached {
        Ok(()) => {
            let sentence = format!("with the library preloaded they find vrdmad at {shown}");
            return Check::ok(name, sentence);
        }
        Err(ErrorKind::NotFound) => format!("{shown} does not exist"),
        Err(ErrorKind::ConnectionRefused) => format!("nobody listens at {shown}"),
        Err(ErrorKind::PermissionDenied) => format!("you may not open {shown}"),
        Err(kind) => format!("{shown} cannot be connected to ({kind})"),
    };
    let sentence = format!(
        "they find no devices: {why}; start vrdmad, name its process socket in {variable}, or use `vrdma run`"
    );
    let verdict = if has_daemon {
        Verdict::Warn
    } else {
        Verdict::Fail
    };
    Check::new(name, verdict, sentence)
}

pub(super) fn judge_library(found: Result<std::path::PathBuf, String>) -> Check {
    match found {
        Ok(path) => Check::ok(
            "library",
            format!("`vrdma run` preloads {}", path.display()),
        ),
        Err(sentence) => Check::warn("library", sentence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_daemon_the_reason_for_no_devices_is_told() {
        let socket = Path::new("/nonexistent/process.sock");
        let check = judge_programs(socket, reach(socket), false);
        assert_eq!(check.verdict, Verdict::Fail);
        insta::assert_snapshot!(check.sentence, @"they find no devices: /nonexistent/process.sock does not exist; start vrdmad, name its process socket in VRDMA_SOCKET, or use `vrdma run`");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None);
        let listener = listener.unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        let refused = judge_programs(&path, reach(&path), true);
        assert!(
            refused.sentence.contains("nobody listens at"),
            "{}",
            refused.sentence
        );
        assert_eq!(
            refused.verdict,
            Verdict::Warn,
            "`vrdma run` names the daemon's own"
        );
        rustix::net::listen(&listener, 1).unwrap();
        assert_eq!(
            judge_programs(&path, reach(&path), true).verdict,
            Verdict::Ok
        );
    }

    #[test]
    fn a_container_may_need_a_user() {
        let mut adapter: Adapter = serde_json::from_value(serde_json::json!({
            "name": "c1", "portgroup": "blue", "mac": "52:54:00:00:00:01", "doorbells": "mapped",
            "origin": "runtime",
        }))
        .unwrap();
        assert!(judge_users(&[]).is_none());
        let check = judge_users(&[&adapter]).unwrap();
        assert!(
            check
                .sentence
                .contains("`vrdma adapter set c1 --user NUMBER`")
        );
        adapter.users = vec!["alice".parse().unwrap()];
        let check = judge_users(&[&adapter]).unwrap();
        assert!(check.sentence.starts_with("1 of 1"), "{}", check.sentence);
    }

    #[test]
    fn a_socket_of_others_is_a_warning() {
        let check = judge_socket(Path::new("/run/vrdma/process.sock"), false, 0);
        assert_eq!(check.verdict, Verdict::Warn);
        assert_eq!(judge_socket(Path::new("/x"), true, 2).verdict, Verdict::Ok);
        assert_eq!(judge_library(Err("no".to_owned())).verdict, Verdict::Warn);
    }
}
