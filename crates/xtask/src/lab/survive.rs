//! `cargo xtask lab survive`: programs whose daemon is killed under them, again and again.

mod guests;
mod replacing;

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{Table, presets};
use vrdma_lab::daemon::{Adapter, Daemon, User};
use vrdma_lab::process::Lifetime;

use replacing::Installed;
pub(super) use replacing::Replacing;

/// Options of `cargo xtask lab survive`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How long each program runs, about
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(2..))]
    seconds: u32,

    /// Install another file of the program and have the daemon go on with it, instead of killing the worker
    #[arg(long)]
    upgrade: bool,

    /// Between two stock guests, too
    #[arg(long)]
    guests: bool,
}

/// A program as server and client, for so many seconds.
struct Row {
    name: &'static str,
    command: fn(u32) -> String,
}

/// The first two compare every byte, or complain.
const ROWS: [Row; 7] = [
    Row {
        name: "ibv_rc_pingpong -c",
        command: |seconds| format!("ibv_rc_pingpong -g 1 -c -s 16384 -n {}", seconds * 3000),
    },
    Row {
        name: "ibv_srq_pingpong -c",
        command: |seconds| {
            format!(
                "ibv_srq_pingpong -g 1 -c -q 4 -s 4096 -n {}",
                seconds * 8000
            )
        },
    },
    Row {
        name: "ib_send_lat",
        command: |seconds| format!("ib_send_lat -F -s 64 -n {}", seconds * 8000),
    },
    Row {
        name: "ib_write_bw",
        command: |seconds| format!("ib_write_bw -F -D {seconds}"),
    },
    Row {
        name: "ib_send_bw",
        command: |seconds| format!("ib_send_bw -F -D {seconds}"),
    },
    Row {
        name: "ib_read_bw",
        command: |seconds| format!("ib_read_bw -F -D {seconds}"),
    },
    Row {
        name: "ib_atomic_bw",
        command: |seconds| format!("ib_atomic_bw -F -D {seconds}"),
    },
];

/// Beyond what a program was asked to run.
const PATIENCE: Duration = Duration::from_secs(60);

/// What became of a row.
struct Outcome {
    kills: u32,
    statuses: [Option<i32>; 2],
    longest: Duration,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let daemon = super::daemon(true)?;
    let replacing = match arguments.upgrade {
        false => Replacing::Kill,
        true => Replacing::Upgrade(Installed::new(&daemon)?),
    };
    let programs = Programs {
        daemon: match &replacing {
            Replacing::Kill => daemon,
            Replacing::Upgrade(installed) => installed.program(),
        },
        cli: super::built("vrdma-cli", "vrdma", true)?,
        library: crate::programs::library()?,
    };
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["program", "workers ended", "longest restart", "outcome"]);
    let guests = arguments
        .guests
        .then(|| guests::Guests::boot(programs.daemon.clone(), programs.cli.clone()))
        .transpose()?;
    let mut failed = 0;
    let of_guests = guests.iter().flat_map(|_| &guests::ROWS);
    for row in ROWS.iter().chain(of_guests) {
        eprintln!("{} ...", row.name);
        let command = (row.command)(arguments.seconds);
        let outcome = match &guests {
            Some(guests) if row.name.starts_with("guests") => {
                guests.survive(&command, arguments.seconds, &replacing)?
            }
            _ => survive(&programs, &command, arguments.seconds, &replacing)?,
        };
        let good = outcome.statuses == [Some(0); 2] && outcome.kills > 0;
        failed += u32::from(!good);
        let said = match (good, outcome.kills) {
            (true, _) => "ok".to_owned(),
            (false, 0) => "FAILED: it was over before a worker was ended".to_owned(),
            (false, _) => format!("FAILED: {:?}", outcome.statuses),
        };
        let longest = format!("{:.0} ms", outcome.longest.as_secs_f64() * 1e3);
        table.add_row([
            row.name.to_owned(),
            outcome.kills.to_string(),
            longest,
            said,
        ]);
    }
    println!("{table}");
    println!("{} rows, {failed} failed", table.row_iter().count());
    Ok(ExitCode::from(u8::from(failed > 0)))
}

struct Programs {
    daemon: PathBuf,
    cli: PathBuf,
    library: PathBuf,
}

fn survive(
    programs: &Programs,
    command: &str,
    seconds: u32,
    replacing: &Replacing,
) -> Result<Outcome> {
    let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
    let adapters = [adapter("a", 1), adapter("b", 2)];
    let run_dir = folder.path();
    let daemon = Daemon::start_kept(&programs.daemon, run_dir, &adapters, None, Lifetime::Owned)?;
    let mut server = programs.start(&daemon, "a", command)?;
    await_server()?;
    let mut client = programs.start(&daemon, "b", &format!("{command} 127.0.0.1"))?;
    let deadline = Instant::now() + Duration::from_secs(seconds.into()) + PATIENCE;
    let (mut kills, mut longest) = (0, Duration::ZERO);
    while client.try_wait()?.is_none() && Instant::now() < deadline {
        thread::sleep(between(kills));
        if let Some(restart) = replacing.replace(&daemon)? {
            longest = longest.max(restart);
            kills += 1;
        }
    }
    let statuses = [ended(&mut client)?, ended(&mut server)?];
    if statuses != [Some(0); 2] {
        eprintln!("{}", daemon.log_tail());
        for name in ["a", "b"] {
            eprintln!(
                "{}",
                fs::read_to_string(run_dir.join(format!("{name}.out")))?
            );
        }
    }
    daemon.stop();
    Ok(Outcome {
        kills,
        statuses,
        longest,
    })
}

fn adapter(name: &str, last: u8) -> Adapter {
    Adapter {
        name: name.to_owned(),
        mac: format!("52:54:00:00:00:0{last}"),
        user: User::Processes(Ipv4Addr::new(10, 0, 0, last)),
        is_away: false,
    }
}

impl Programs {
    fn start(&self, daemon: &Daemon, adapter: &str, command: &str) -> Result<Child> {
        let output = fs::File::create(daemon.run_dir().join(format!("{adapter}.out")))?;
        let mut run = Command::new(&self.cli);
        run.arg("--socket").arg(daemon.control_socket());
        run.args(["run", "--adapter", adapter, "--library"]);
        run.arg(&self.library).arg("--");
        run.args(command.split(' '));
        run.stdin(Stdio::null());
        run.stdout(output.try_clone()?).stderr(output);
        run.spawn()
            .with_context(|| format!("cannot start {command}"))
    }
}

/// Perftest and the examples of libibverbs listen there.
fn await_server() -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let listens = |table: &str| {
        table.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let port = words.get(1).and_then(|local| local.rsplit(':').next());
            // 18515, and 0A is LISTEN (net/tcp_states.h).
            port == Some("4853") && words.get(3) == Some(&"0A")
        })
    };
    while Instant::now() < deadline {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        if tables
            .iter()
            .any(|table| fs::read_to_string(table).is_ok_and(|text| listens(&text)))
        {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    anyhow::bail!("the server does not listen")
}

/// 100 to 900 ms, which follow from how many there were before.
fn between(kills: u32) -> Duration {
    Duration::from_millis(100 + u64::from(kills.wrapping_mul(2_654_435_761) % 801))
}

/// The status of a program, which is ended if it does not end.
fn ended(child: &mut Child) -> Result<Option<i32>> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_killed_every_100_to_900_ms() {
        let range = Duration::from_millis(100)..=Duration::from_millis(900);
        assert!((0..1000).all(|kills| range.contains(&between(kills))));
    }
}
