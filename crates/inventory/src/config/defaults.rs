//! Default paths.

use std::path::{Path, PathBuf};

/// Variables of the environment; an argument, so that tests need not change the process's own.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `$XDG_CONFIG_HOME`
    pub config_home: Option<PathBuf>,
    /// `$XDG_RUNTIME_DIR`
    pub runtime_dir: Option<PathBuf>,
}

impl Environment {
    /// Returns the variables of this process.
    pub fn of_process() -> Self {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        Self {
            config_home: variable("XDG_CONFIG_HOME"),
            runtime_dir: variable("XDG_RUNTIME_DIR"),
        }
    }
}

/// Returns the user's own configuration file, or else the machine's; `None` when neither exists.
pub fn default_file(environment: &Environment) -> Option<PathBuf> {
    let own = environment
        .config_home
        .as_ref()
        .map(|home| home.join("vrdma/vrdmad.toml"));
    let machine = Path::new("/etc/vrdma/vrdmad.toml").to_owned();
    own.into_iter().chain([machine]).find(|path| path.exists())
}
