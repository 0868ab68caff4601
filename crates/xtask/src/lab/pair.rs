//! `lab pair`: one server and one client in two fresh guests.

use std::env;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use vrdma_api::DoorbellMode;
use vrdma_lab::daemon::{DAEMON_VARIABLE, built_daemon};
use vrdma_lab::guest::{Kind, Output};
use vrdma_lab::pair::{KeptPair, Network, Pair, PairConfig};
use vrdma_lab::process::Lifetime;

use super::{WireArguments, exit_code};
use crate::cargo;

/// `-- 'SERVER COMMAND' -- 'CLIENT COMMAND'` are shell commands in guests a and b,
/// which know both addresses as $A and $B. Exits with the client's status.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Kind of guest a: vrdma, rxe (software RoCE over the same network card) or tcp
    #[arg(long, default_value_t = Kind::Vrdma)]
    a: Kind,
    /// Kind of guest b
    #[arg(long, default_value_t = Kind::Vrdma)]
    b: Kind,
    /// Virtual processors of each guest
    #[arg(long, default_value_t = 1, value_name = "N")]
    smp: u32,
    /// Memory of each guest
    #[arg(long, default_value_t = 512, value_name = "MiB")]
    mem: u32,
    /// How the adapters' doorbells work: mapped or trapped
    #[arg(long, default_value_t = DoorbellMode::Mapped)]
    doorbells: DoorbellMode,
    /// Leave daemon and guests running, for `lab shell` and until `lab stop`
    #[arg(long)]
    keep: bool,
    /// Use a release build of the daemon
    #[arg(long)]
    release: bool,
    /// Connect the guests to each other without a daemon (rxe and tcp only)
    #[arg(long)]
    direct: bool,
    #[command(flatten)]
    wire: WireArguments,
    /// How long the client may take
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    timeout: u64,
    /// 'SERVER COMMAND' -- 'CLIENT COMMAND'
    #[arg(last = true, value_name = "COMMANDS")]
    commands: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let commands = split_commands(&arguments.commands)?;
    ensure!(
        commands.is_some() || arguments.keep,
        "without commands, say --keep"
    );
    if arguments.keep && KeptPair::find()?.is_some() {
        bail!("a pair is running already: use lab shell, or end it with lab stop");
    }
    let pair = Pair::start(&configuration(arguments)?)?;
    let status = match commands {
        Some((server, client)) => run_commands(&pair, &server, &client, arguments.timeout),
        None => Ok(ExitCode::SUCCESS),
    };
    if arguments.keep {
        let kept = pair.keep()?;
        eprintln!(
            "kept in {}; lab shell a|b goes there, lab stop ends it",
            kept.run_dir().display()
        );
    }
    status
}

fn run_commands(pair: &Pair, server: &str, client: &str, timeout: u64) -> Result<ExitCode> {
    let outcome = pair.run(server, client, Duration::from_secs(timeout))?;
    show("server", &outcome.server)?;
    show("client", &outcome.client)?;
    if outcome.client.status != 0 {
        eprintln!("the client ended with status {}", outcome.client.status);
        eprint!("{}", pair.logs());
    }
    Ok(exit_code(outcome.client.status))
}

fn show(title: &str, output: &Output) -> Result<()> {
    let mut screen = stdout().lock();
    writeln!(screen, "=== {title} (status {})", output.status)?;
    screen.write_all(&output.stdout)?;
    screen.write_all(&output.stderr)?;
    Ok(())
}

/// Splits the words at the `--` between the two commands.
fn split_commands(words: &[String]) -> Result<Option<(String, String)>> {
    if words.is_empty() {
        return Ok(None);
    }
    let halves: Vec<String> = words
        .split(|word| word == "--")
        .map(|half| half.join(" "))
        .collect();
    match <[String; 2]>::try_from(halves) {
        Ok([server, client]) if !server.is_empty() && !client.is_empty() => {
            Ok(Some((server, client)))
        }
        _ => bail!("give two commands: -- 'SERVER COMMAND' -- 'CLIENT COMMAND'"),
    }
}

fn configuration(arguments: &Arguments) -> Result<PairConfig> {
    let network = network(arguments)?;
    Ok(PairConfig {
        kinds: [arguments.a, arguments.b],
        processors: arguments.smp,
        memory_mib: arguments.mem,
        doorbells: arguments.doorbells,
        lifetime: if arguments.keep {
            Lifetime::Kept
        } else {
            Lifetime::Owned
        },
        ..PairConfig::new(network)
    })
}

fn network(arguments: &Arguments) -> Result<Network> {
    let wire = arguments.wire.wire()?;
    if arguments.direct {
        ensure!(wire.is_none(), "--direct has no hosts in between");
        return Ok(Network::Direct);
    }
    let program = daemon(arguments.release)?;
    Ok(match wire {
        Some(wire) => Network::Wire { program, wire },
        None => Network::Daemon(program),
    })
}

/// The daemon, built from the checkout as it is now, unless the environment names one.
pub(crate) fn daemon(release: bool) -> Result<PathBuf> {
    if env::var_os(DAEMON_VARIABLE).is_some() {
        return built_daemon();
    }
    built("vrdmad", release)
}

/// Builds a program of this workspace from the checkout as it is now. With the features of the whole workspace: for one
/// package alone, cargo would rebuild much of its dependencies.
pub(crate) fn built(program: &str, release: bool) -> Result<PathBuf> {
    let mut build = cargo::command();
    build.args(["build", "--quiet", "--workspace", "--bin", program]);
    if release {
        build.arg("--release");
    }
    let status = build.status().context("cannot start cargo")?;
    ensure!(status.success(), "{program} does not build");
    let own = env::current_exe()?;
    let target = own.ancestors().nth(2).map(Path::to_path_buf);
    let profile = if release { "release" } else { "debug" };
    target
        .map(|target| target.join(profile).join(program))
        .context("this program lies in no target folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn commands_are_divided_by_dashes() {
        let both = split_commands(&words("ib_send_lat -- ib_send_lat $A")).unwrap();
        assert_eq!(
            both,
            Some(("ib_send_lat".to_owned(), "ib_send_lat $A".to_owned()))
        );
        assert_eq!(split_commands(&[]).unwrap(), None);
    }

    #[test]
    fn one_command_or_three_are_refused() {
        for line in ["server", "server --", "-- client", "a -- b -- c"] {
            assert!(split_commands(&words(line)).is_err(), "{line}");
        }
    }
}
