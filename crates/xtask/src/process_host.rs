//! A daemon with one adapter for programs of this host.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// How long the daemon may take until it accepts requests.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Interval between two looks at it.
const POLL: Duration = Duration::from_millis(20);

/// A running daemon; dropping it ends it.
pub(crate) struct ProcessHost {
    child: Child,
    folder: PathBuf,
}

impl ProcessHost {
    /// Builds and starts a daemon whose files are in `folder`.
    pub(crate) fn start(release: bool, folder: &Path) -> Result<Self> {
        let program = crate::lab::built("vrdmad", release)?;
        let config = folder.join("vrdmad.toml");
        std::fs::write(&config, configuration(folder))?;
        let log = std::fs::File::create(folder.join("vrdmad.log"))?;
        let child = Command::new(&program)
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut host = Self {
            child,
            folder: folder.to_owned(),
        };
        host.wait_until_it_accepts()?;
        Ok(host)
    }

    fn wait_until_it_accepts(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while UnixStream::connect(self.folder.join("vrdmad.sock")).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("vrdmad ended at once ({status}):\n{}", self.log());
            }
            ensure!(
                Instant::now() < deadline,
                "vrdmad does not accept:\n{}",
                self.log()
            );
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Sets the variables by which a program uses the adapter.
    pub(crate) fn environment(&self, program: &mut Command, library: &Path) {
        program
            .env("LD_PRELOAD", library)
            .env("VRDMA_SOCKET", self.socket())
            .env_remove("VRDMA_ADAPTER");
    }

    /// The socket at which the library finds the daemon.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("process.sock")
    }

    /// The daemon's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("vrdmad.log")).unwrap_or_default()
    }
}

impl Drop for ProcessHost {
    fn drop(&mut self) {
        // The daemon has nothing to save, and a failure means that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "[daemon]\nsocket = \"{folder}/vrdmad.sock\"\nrun_dir = \"{folder}\"\n\
         [[portgroup]]\nname = \"tests\"\n\
         [[adapter]]\nname = \"self\"\nportgroup = \"tests\"\nkind = \"process\"\n\
         mac = \"52:54:00:00:00:01\"\nip = \"10.0.0.1\"\n"
    )
}
