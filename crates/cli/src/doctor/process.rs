//! What programs of this host need.

use std::path::Path;

use vrdma_api::{AdapterKind, Status, paths};

use super::Check;

/// The socket, the adapters and the library.
pub(super) fn checks(status: &Status) -> Vec<Check> {
    let socket = status.run_dir.join(paths::PROCESS_SOCKET_FILE);
    let of_processes = |adapter: &&vrdma_api::Adapter| adapter.kind == AdapterKind::Process;
    let adapters = status.adapters.iter().filter(of_processes).count();
    vec![
        judge_socket(
            &socket,
            rustix::fs::access(&socket, rustix::fs::Access::WRITE_OK).is_ok(),
            adapters,
        ),
        judge_library(crate::run::find_library(None)),
    ]
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
    use crate::doctor::Verdict;

    #[test]
    fn a_socket_of_others_is_a_warning() {
        let check = judge_socket(Path::new("/run/vrdma/process.sock"), false, 0);
        assert_eq!(check.verdict, Verdict::Warn);
        assert_eq!(judge_socket(Path::new("/x"), true, 2).verdict, Verdict::Ok);
        assert_eq!(judge_library(Err("no".to_owned())).verdict, Verdict::Warn);
    }
}
