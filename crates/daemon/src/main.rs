//! `vrdmad`: arguments, logs, and exit codes.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;
use vrdma_api::paths;
use vrdma_daemon::service;
use vrdma_inventory::config::{Config, ConfigError, Environment, default_file};
use vrdma_keep::{Succession, Successor, complain};
use vrdma_sandbox::interfaces;
use vrdma_shard::legacy::{self, Legacy};

/// The configuration or the environment is wrong: nothing was changed, and another try without a change will not help.
/// Units can name it in `RestartPreventExitStatus`.
const EXIT_REFUSED: u8 = 2;

/// Printed by a program that can go on for another one.
const GOES_ON: &str = "vrdmad goes on";

#[derive(Debug, Parser)]
#[command(name = "vrdmad", version, about, long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
struct Arguments {
    /// Configuration file
    ///
    /// Without this option: $XDG_CONFIG_HOME/vrdma/vrdmad.toml, else /etc/vrdma/vrdmad.toml; without
    /// such a file, no adapters, and the sockets in $XDG_RUNTIME_DIR/vrdma or /run/vrdma.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check the configuration and exit
    #[arg(long)]
    check: bool,

    /// Say whether this program can go on for one that keeps its state in that format, and exit
    #[arg(long, hide = true, value_name = "FORMAT")]
    goes_on_from: Option<u32>,

    /// Be the helper that opens interfaces, for the daemon at the standard input
    #[arg(long, hide = true)]
    open_interfaces: bool,

    /// Leave core dumps on, and let debuggers of the daemon's user attach
    ///
    /// A dump contains keys, and messages of guests and programs.
    #[arg(long)]
    core_dumps: bool,

    /// With supervise = true, stop after this many crashes within a minute
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    crashes: u16,

    /// What to log to standard error: error, warn, info, debug, trace, or per module
    #[arg(long, value_name = "FILTER", default_value = "info", env = "RUST_LOG")]
    log: String,
}

const LONG_ABOUT: &str = "\
The vRDMA host daemon. It serves a PVRDMA adapter to each QEMU virtual machine over a vfio-user
socket and switches the Ethernet frames of the vmxnet3 card beside it. The guests need no driver of
ours, the host needs no RDMA hardware, and the daemon needs no privilege.

Ask it and change it with vrdma(1).";

const EXAMPLES: &str = "\
Example configuration:
  [daemon]
  socket = \"/run/vrdma/vrdmad.sock\"   # control API, mode 0600
  run_dir = \"/run/vrdma\"              # adapters' sockets: NAME.vfio-user and NAME.ethernet

  cores = \"2-5\"                     # optional: a shard of the data path on each; `vrdma run` keeps off them
  # shards = 4                        # optional, instead of cores: so many, without cores of their own
  poll = \"always\"                   # optional: it never sleeps; needs the core for itself
  sandbox = false                     # optional: it keeps rights that it does not need
  supervise = true                    # optional: after a crash another worker goes on for it
  trust_own_user = true               # optional: containers of its own user are as fast as other programs

  [migration]                         # optional: VMs' adapters go from daemon to daemon, all with this key
  listen = \"192.0.2.1:4793\"
  key = \"/etc/vrdma/migration.key\"

  [[portgroup]]
  name = \"blue\"
  weight = 3                          # optional: what its turns weigh beside those of other groups, 1 to 100
  limit_in = \"20gbit\"               # optional, as limit_out, guarantee_in, guarantee_out and the four with _ops
  vlan = 10                           # optional: the tag on raw uplinks; no tag without it
  vni = 5010                          # optional: the network in tunnels; the VLAN's number without it

  [[uplink]]                          # optional: the way to other hosts
  name = \"up0\"
  kind = \"tunnel\"                     # VXLAN; or \"raw\" with interface = \"eth1\" (CAP_NET_RAW)
  listen = \"192.0.2.1:4789\"
  key = \"/etc/vrdma/up0.key\"         # optional: seals what goes to its peers, who have the same

  [[peer]]                            # the other end of a tunnel
  uplink = \"up0\"
  address = \"192.0.2.2:4789\"
  stations = [\"52:54:00:00:00:02\"]    # optional: all that may be behind it; frames of others are dropped
  vnis = [5010]                       # optional: the networks it takes part in; those of all port groups
  any_port = false                    # optional: true if it sends from other ports than it listens at

  [[adapter]]
  name = \"vm1\"
  portgroup = \"blue\"
  mac = \"52:54:00:00:00:01\"           # optional: derived from the name
  doorbells = \"mapped\"                # or \"trapped\", slow, for finding faults

  [[adapter]]
  name = \"c1\"
  portgroup = \"blue\"
  kind = \"process\"                    # programs of this host: vrdma run --adapter c1 -- PROGRAM
  ip = \"10.0.0.5\"                     # optional: a link-local one
  limit_out = \"10gbit\"              # optional, as for its port group, and weight, too
  shard = 0                           # optional: that with the fewest adapters

  [[adapter]]
  name = \"host0\"                       # a network interface of this name (CAP_NET_ADMIN)
  portgroup = \"blue\"
  kind = \"tap\"                        # the host's own IP stack, without RDMA
  ip = \"10.0.0.254\"                   # optional: in a network of 24 bits (IPv6: 64)

Examples:
  vrdmad --config ./vrdmad.toml --log debug
  vrdmad --config ./vrdmad.toml --check

Exit status: 0 after SIGTERM or SIGINT, 2 when the configuration, a socket or a folder is wrong
(one sentence on standard error says what and how to mend it), 1 on any other failure.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.open_interfaces {
        return help();
    }
    let succession = Succession::from_environment();
    let Err(failure) = run(&arguments, succession.clone()) else {
        return ExitCode::SUCCESS;
    };
    if matches!(failure, Failure::Worker(_)) {
        return ExitCode::from(failure.code());
    }
    complain(format_args!("vrdmad: {failure}"));
    if let Some(succession) = succession {
        // No worker was started, so the previous program can go on.
        succession.go_back(&failure.to_string());
    }
    ExitCode::from(failure.code())
}

/// Runs the helper that opens interfaces. When the daemon ends, the helper ends without failure.
fn help() -> ExitCode {
    match interfaces::serve_standard_input() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!(
                "vrdmad: the helper that opens interfaces ends: {error}"
            ));
            ExitCode::FAILURE
        }
    }
}

/// Why the daemon ended.
#[derive(Debug)]
enum Failure {
    /// Arguments or the environment are wrong; a sentence.
    Refused(String),
    Config(ConfigError),
    Service(service::ServiceError),
    /// The state left by the previous worker cannot be read.
    Legacy(std::io::Error),
    /// The worker ended with that status, and has reported why.
    Worker(i32),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Service(service::ServiceError::Broken(_)) | Self::Legacy(_) => 1,
            Self::Worker(status) => u8::try_from(*status).unwrap_or(1),
            Self::Refused(_)
            | Self::Config(_)
            | Self::Service(service::ServiceError::Refused(_)) => EXIT_REFUSED,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(sentence) => f.write_str(sentence),
            Self::Config(error) => error.fmt(f),
            Self::Service(error) => error.fmt(f),
            Self::Legacy(error) => write!(f, "cannot go on for the worker before: {error}"),
            Self::Worker(status) => write!(f, "the worker ended with status {status}"),
        }
    }
}

fn run(arguments: &Arguments, succession: Option<Succession>) -> Result<(), Failure> {
    start_log(&arguments.log)?;
    let environment = Environment::of_process();
    let file = arguments
        .config
        .clone()
        .or_else(|| default_file(&environment));
    let run_dir = paths::default_run_dir(environment.runtime_dir.as_deref());
    let config = Config::load(file.as_deref(), &run_dir).map_err(Failure::Config)?;
    if let Some(format) = arguments.goes_on_from {
        return say_whether_it_goes_on(format, &config);
    }
    if arguments.check {
        println!(
            "the configuration is valid: {}",
            counted(config.adapters.len())
        );
        return Ok(());
    }
    if !config.supervise {
        let legacy = Legacy::default();
        return service::run(config, arguments.core_dumps, &legacy).map_err(Failure::Service);
    }
    supervise(&config, arguments, succession)
}

/// Answers `--goes-on-from`.
fn say_whether_it_goes_on(format: u32, config: &Config) -> Result<(), Failure> {
    if !config.supervise {
        return Err(Failure::Refused(
            "supervise is off in the configuration, so nobody can go on; restart the daemon instead".to_owned(),
        ));
    }
    if !(legacy::OLDEST..=legacy::FORMAT).contains(&format) {
        return Err(Failure::Refused(format!(
            "the daemon keeps its state in format {format}, and vrdmad {} reads formats {} to {}; restart the daemon instead",
            env!("CARGO_PKG_VERSION"),
            legacy::OLDEST,
            legacy::FORMAT
        )));
    }
    println!("{GOES_ON}");
    Ok(())
}

/// Keeps a worker running.
fn supervise(
    config: &Config,
    arguments: &Arguments,
    succession: Option<Succession>,
) -> Result<(), Failure> {
    let command_line: Vec<OsString> = std::env::args_os().collect();
    let question = format!("--goes-on-from={}", legacy::FORMAT);
    let options = vrdma_keep::Options {
        program: "vrdmad",
        capacity: legacy::ROOT,
        crashes_max: arguments.crashes.into(),
        successor: Successor {
            arguments: &command_line,
            question: &question,
            answer: GOES_ON,
        },
    };
    let status = vrdma_keep::supervise(options, succession, |life| {
        if let Some(end) = life.previous_end {
            tracing::warn!("the worker before ended by {end}; this one goes on for it");
        }
        let shards = config.shards.cores.len();
        let legacy = Legacy::open(life, shards).map_err(Failure::Legacy);
        let ran = legacy.and_then(|legacy| {
            service::run(config.clone(), arguments.core_dumps, &legacy).map_err(Failure::Service)
        });
        match ran {
            Ok(()) => 0,
            Err(failure) => {
                complain(format_args!("vrdmad: {failure}"));
                failure.code().into()
            }
        }
    });
    match status {
        0 => Ok(()),
        status => Err(Failure::Worker(status)),
    }
}

fn counted(adapters: usize) -> String {
    format!(
        "{adapters} {}",
        if adapters == 1 { "adapter" } else { "adapters" }
    )
}

fn start_log(filter: &str) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Failure::Refused(format!(
            "--log: {error}; use a level such as info, or module=level"
        ))
    })?;
    let stderr = std::io::stderr();
    tracing_subscriber::fmt()
        .with_ansi(stderr.is_terminal())
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Otherwise it would write about lines that cannot be written, and panic.
        .log_internal_errors(false)
        .init();
    Ok(())
}
