//! Programs that load our verbs library in front of theirs, as processes of a host or in a container on it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Container;
use crate::daemon::process_socket;
use crate::namespace::Entry;
use crate::process::copied;

/// The library's folder inside a container.
const LIBRARIES: &str = "/run/vrdma-lib";

/// The daemon's folder inside a container.
pub const SOCKETS: &str = "/run/vrdma";

/// What a program needs to find an adapter of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preload {
    /// The host it runs on.
    pub host: Entry,
    /// The adapter's name.
    pub adapter: String,
    /// The daemon's folder.
    pub run_dir: PathBuf,
    /// `libibverbs.so.1`.
    pub library: PathBuf,
    /// Other variables of its shell.
    pub variables: Vec<(String, String)>,
}

/// Makes a command from a shell's words.
pub type Enter = Box<dyn Fn(&str) -> Command>;

impl Preload {
    /// Runs words as a process with this host's files.
    #[must_use]
    pub fn process(self) -> Enter {
        Box::new(move |words| {
            let mut shell = Command::new("sh");
            shell.args(["-c", words]);
            self.command(&shell)
        })
    }

    /// The command as such a process. The library is loaded by the program, not by the commands that start it here.
    #[must_use]
    pub fn command(&self, command: &Command) -> Command {
        let own = self.environment(&process_socket(&self.run_dir), &self.library);
        self.with_environment(&own, command)
    }

    /// The same for a program of ours, which has the library linked in.
    #[must_use]
    pub fn linked(&self, command: &Command) -> Command {
        let own = self.adapter_variables(&process_socket(&self.run_dir));
        self.with_environment(&own, command)
    }

    fn with_environment(&self, own: &[(String, String)], command: &Command) -> Command {
        let mut env = Command::new("env");
        env.args(own.iter().map(|(name, value)| format!("{name}={value}")));
        env.arg(command.get_program());
        self.host.command(&copied(env, command))
    }

    /// Runs words in a container named after the adapter, with the files of a root.
    #[must_use]
    pub fn container(self, root: &Path) -> Enter {
        self.container_with(root, &[])
    }

    /// The same with more files and folders of this host, under other names.
    #[must_use]
    pub fn container_with(self, root: &Path, binds: &[(PathBuf, &str)]) -> Enter {
        let bound = |container: Container, (outside, inside): &(PathBuf, &str)| {
            container.bind(outside, inside)
        };
        let container = binds.iter().fold(self.inside(root), bound);
        Box::new(move |words| container.command(words))
    }

    fn inside(&self, root: &Path) -> Container {
        let name = self.library.file_name().unwrap_or_default();
        let folder = self.library.parent().unwrap_or(&self.library);
        let inside = self.environment(
            &process_socket(Path::new(SOCKETS)),
            &Path::new(LIBRARIES).join(name),
        );
        let mut container = Container::new(&self.adapter, &self.host, root)
            .bind(folder, LIBRARIES)
            .bind(&self.run_dir, SOCKETS);
        for (name, value) in &inside {
            container = container.variable(name, value);
        }
        container
    }

    fn environment(&self, socket: &Path, library: &Path) -> Vec<(String, String)> {
        let folder = library.parent().unwrap_or(library);
        let own = [("LD_PRELOAD", library), ("LD_LIBRARY_PATH", folder)];
        let own = own.map(|(name, path)| (name.to_owned(), path.display().to_string()));
        let adapter = self.adapter_variables(socket).into_iter();
        adapter.chain(own).chain(self.variables.clone()).collect()
    }

    /// The variables by which the library finds the adapter.
    fn adapter_variables(&self, socket: &Path) -> [(String, String); 2] {
        [
            ("VRDMA_SOCKET".to_owned(), socket.display().to_string()),
            ("VRDMA_ADAPTER".to_owned(), self.adapter.clone()),
        ]
    }
}
