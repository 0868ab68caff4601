//! `cargo xtask lab survive`: programs whose daemon's worker is killed repeatedly while they run.

mod guests;
mod pauses;
mod replacing;
mod rows;

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use tempfile::TempDir;
use vrdma_lab::daemon::{Adapter, Daemon, User};
use vrdma_lab::process::Lifetime;

use pauses::Pauses;
use replacing::Installed;
pub(super) use replacing::Replacing;
use rows::{Meets, Row};

/// Options of `cargo xtask lab survive`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How long each program runs, about
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(2..))]
    seconds: u32,

    /// Install another file of the program and have the daemon continue with it, instead of killing the worker
    #[arg(long)]
    upgrade: bool,

    /// Also run programs between two stock guests
    #[arg(long)]
    guests: bool,

    /// Run all programs again until this number of workers were ended
    #[arg(long, value_name = "N", default_value = "1")]
    times: u32,

    /// Three programs, which check what they receive, and no release build
    #[arg(long)]
    short: bool,

    /// Only programs whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// Additional time beyond the time that a program was asked to run.
const PATIENCE: Duration = Duration::from_secs(60);

/// Programs that count messages take as long as those take: on a busy machine this many times longer.
const SLOWER: u32 = 3;

/// Longest time of a program that is to run for about `seconds`.
fn limit(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into()) * SLOWER + PATIENCE
}

/// The outcome of a row.
struct Outcome {
    pauses: Pauses,
    statuses: [Option<i32>; 2],
    /// The longest round trip that a program has measured.
    longest: Option<Duration>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let is_chosen = |name: &str| name.contains(&arguments.only);
    let mut names = rows::rows(arguments.short).map(|row| row.name);
    let mut of_guests = guests::rows().map(|row| row.name);
    ensure!(
        names.any(is_chosen) || (arguments.guests && of_guests.any(is_chosen)),
        "no program's name contains {:?}: nothing would run",
        arguments.only
    );
    let release = !arguments.short;
    let daemon = super::daemon(release)?;
    let replacing = match arguments.upgrade {
        false => Replacing::Kill,
        true => Replacing::Upgrade(Installed::new(&daemon)?),
    };
    let programs = Programs {
        daemon: match &replacing {
            Replacing::Kill => daemon,
            Replacing::Upgrade(installed) => installed.program(),
        },
        cli: super::built("vrdma", release)?,
        library: crate::programs::library()?,
    };
    let mut report = Report::new();
    let stage = Stage::start(&programs)?;
    let guests = arguments
        .guests
        .then(|| guests::Guests::boot(programs.daemon.clone(), programs.cli.clone()))
        .transpose()?;
    while report.is_good() && report.pauses.count() < arguments.times {
        for row in rows::rows(arguments.short).filter(|row| is_chosen(row.name)) {
            eprintln!("{} ...", row.name);
            let outcome = stage.survive(&row, arguments.seconds, &replacing)?;
            report.add(row.name, outcome);
        }
        let Some(guests) = &guests else { continue };
        for row in guests::rows().filter(|row| is_chosen(row.name)) {
            eprintln!("{} ...", row.name);
            let outcome = guests.survive(&row, arguments.seconds, &replacing)?;
            report.add(row.name, outcome);
        }
    }
    let descriptors = stage.daemon.open_descriptors();
    stage.daemon.stop();
    Ok(report.print(descriptors))
}

/// The results of all rows.
struct Report {
    table: Table,
    pauses: Pauses,
    failed: u32,
}

impl Report {
    fn new() -> Self {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_BORDERS_ONLY);
        table.set_header([
            "program",
            "workers ended",
            "restart, median",
            "worst",
            "longest round trip",
            "outcome",
        ]);
        Self {
            table,
            pauses: Pauses::default(),
            failed: 0,
        }
    }

    fn is_good(&self) -> bool {
        self.failed == 0
    }

    fn add(&mut self, name: &str, outcome: Outcome) {
        let count = outcome.pauses.count();
        let good = outcome.statuses == [Some(0); 2] && count > 0;
        self.failed += u32::from(!good);
        let said = match (good, count) {
            (true, _) => "ok".to_owned(),
            (false, 0) => "FAILED: it was over before a worker was ended".to_owned(),
            (false, _) => format!("FAILED: {:?}", outcome.statuses),
        };
        self.table.add_row([
            name.to_owned(),
            count.to_string(),
            outcome.pauses.median(),
            outcome.pauses.worst(),
            outcome.longest.map_or(String::new(), pauses::milliseconds),
            said,
        ]);
        self.pauses.add_all(outcome.pauses);
    }

    fn print(&self, descriptors: Option<usize>) -> ExitCode {
        println!("{}", self.table);
        println!(
            "{} workers ended; until the next one served: median {}, worst {}",
            self.pauses.count(),
            self.pauses.median(),
            self.pauses.worst()
        );
        if let Some(open) = descriptors {
            println!("{open} descriptors are open in the daemon, whose programs have all ended");
        }
        println!(
            "{} rows, {} failed",
            self.table.row_iter().count(),
            self.failed
        );
        ExitCode::from(u8::from(!self.is_good()))
    }
}

struct Programs {
    daemon: PathBuf,
    cli: PathBuf,
    library: PathBuf,
}

/// The daemon of all rows, whose workers are ended.
struct Stage<'a> {
    programs: &'a Programs,
    daemon: Daemon,
    _folder: TempDir,
}

impl<'a> Stage<'a> {
    fn start(programs: &'a Programs) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("vrdma-lab-").tempdir()?;
        let adapters = [adapter("a", 1), adapter("b", 2)];
        let (program, lifetime) = (&programs.daemon, Lifetime::Owned);
        let daemon = Daemon::start_kept(program, folder.path(), &adapters, None, lifetime)?;
        Ok(Self {
            programs,
            daemon,
            _folder: folder,
        })
    }

    fn survive(&self, row: &Row, seconds: u32, replacing: &Replacing) -> Result<Outcome> {
        let (programs, daemon) = (self.programs, &self.daemon);
        let mut server = programs.start(daemon, "a", &(row.server)(seconds))?;
        self.await_server(row.meets)?;
        let mut client = programs.start(daemon, "b", &(row.client)(seconds))?;
        let deadline = Instant::now() + limit(seconds);
        let mut pauses = Pauses::default();
        while client.try_wait()?.is_none() && Instant::now() < deadline {
            thread::sleep(between(pauses.count()));
            if let Some(restart) = replacing.replace(daemon)? {
                pauses.add(restart);
            }
        }
        let of_client = ended(&mut client)?;
        let of_server = match row.meets {
            Meets::RdmaCm => {
                let status = still_served(&mut server)?;
                // The daemon learns of the end by the socket, and the next row listens at the same address.
                self.await_listeners(false)?;
                status
            }
            Meets::Tcp(..) | Meets::Nobody => ended(&mut server)?,
        };
        let statuses = [of_client, of_server];
        if statuses != [Some(0); 2] {
            eprintln!("{}", daemon.log_tail());
            for name in ["a", "b"] {
                eprintln!("{}", printed(daemon, name)?);
            }
        }
        let longest = match row.name {
            "ib_send_lat" => pauses::longest_round_trip(&printed(daemon, "b")?),
            _ => None,
        };
        Ok(Outcome {
            pauses,
            statuses,
            longest,
        })
    }

    fn await_server(&self, meets: Meets) -> Result<()> {
        match meets {
            Meets::Nobody => Ok(()),
            Meets::Tcp(first, count) => patiently(
                || Ok((first..first + count).all(listens)),
                "the server does not listen",
            ),
            Meets::RdmaCm => self.await_listeners(true),
        }
    }

    /// Waits until a program listens by rdma_cm at the server's adapter, or none does.
    fn await_listeners(&self, wanted: bool) -> Result<()> {
        let is_so = || {
            let adapters = self.daemon.stats()?;
            let mut of_server = adapters.iter().filter(|it| it.name.as_str() == "a");
            Ok(of_server.any(|it| it.rdma.listeners > 0) == wanted)
        };
        patiently(is_so, "listeners by rdma_cm are not as they should be")
    }
}

fn patiently(is_so: impl Fn() -> Result<bool>, complaint: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so()? {
        ensure!(Instant::now() < deadline, "{complaint}");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The output of a side.
fn printed(daemon: &Daemon, name: &str) -> Result<String> {
    Ok(fs::read_to_string(output(daemon, name))?)
}

fn output(daemon: &Daemon, name: &str) -> PathBuf {
    daemon.run_dir().join(format!("{name}.out"))
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
    fn start(&self, daemon: &Daemon, adapter: &str, script: &str) -> Result<Child> {
        let output = fs::File::create(output(daemon, adapter))?;
        let mut run = Command::new(&self.cli);
        run.arg("--socket").arg(daemon.control_socket());
        run.args(["run", "--adapter", adapter, "--library"]);
        run.arg(&self.library).args(["--", "sh", "-c", script]);
        run.stdin(Stdio::null());
        run.stdout(output.try_clone()?).stderr(output);
        run.spawn()
            .with_context(|| format!("cannot start {script}"))
    }
}

/// Whether a process listens at a TCP port of this host.
fn listens(port: u16) -> bool {
    let wanted = format!("{port:04X}");
    let listens = |table: String| {
        table.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let port = words.get(1).and_then(|local| local.rsplit(':').next());
            // 0A is LISTEN (net/tcp_states.h).
            port == Some(&*wanted) && words.get(3) == Some(&"0A")
        })
    };
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let mut tables = tables
        .into_iter()
        .filter_map(|it| fs::read_to_string(it).ok());
    tables.any(listens)
}

/// Ends a server that never ends by itself: it succeeded if it still runs when its clients are done. `vrdma run` passes
/// the signal on; if it were killed, it would leave its program behind.
fn still_served(server: &mut Child) -> Result<Option<i32>> {
    if let Some(status) = server.try_wait()? {
        return Ok(status.code().filter(|code| *code != 0));
    }
    replacing::signal("-TERM", server.id())?;
    server.wait()?;
    Ok(Some(0))
}

/// The pause before the next kill, 100 to 900 ms, derived from the number of previous ones.
fn between(kills: u32) -> Duration {
    Duration::from_millis(100 + u64::from(kills.wrapping_mul(2_654_435_761) % 801))
}

/// The exit status of a program, which is killed if it does not end.
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
