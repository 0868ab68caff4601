//! `vrdma relay`: a separate program for each side of a migration whose memory is placed.
//!
//! ```text
//!   destination: somebody ──► vrdma relay --adapter A --qemu PID ──becomes──► the same in that adapter's environment
//!   source:      vrdma migrate ──► vrdma relay --send, in such an environment; lines of JSON
//!                                  `──► vrdma relay --mount, for the file that QEMU writes its stream into
//! ```

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::thread;
use std::time::Duration;

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use vrdma_api::{Name, RelayBlock, RelayRequest, RelayTold, Status, paths};
use vrdma_api_client::Client;
use vrdma_migration::RelayProgram;
use vrdma_relay::stream::Block;
use vrdma_relay::{Mounter, Passed, Receiver, Sender, Sending, SentBlock};

use crate::failure::Failure;
use crate::report::Report;
use crate::run::usable;

/// Exit status when the input has ended.
const ABANDONED: i32 = 1;

const EXAMPLES: &str = "\
The user is that of QEMU, whose memory is found by /proc/PID/maps and /proc/PID/fd. The adapter is of kind process and
reaches that of the source. The relay ends with the migration; a look (--dry-run) leaves it waiting.

Example, at the destination:
  vrdma relay --adapter mig --qemu $(pidof qemu-system-x86_64) --listen 198.51.100.2:4444";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RelayOptions {
    /// The adapter by which the memory comes, of kind process
    #[arg(long, required_unless_present_any = ["send", "inside", "mount"])]
    adapter: Option<Name>,
    /// Process number of the QEMU that waits
    #[arg(long, value_name = "PID", required_unless_present_any = ["send", "mount"])]
    qemu: Option<u32>,
    /// Where the source's relay connects: an address of the adapter
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:4444")]
    listen: SocketAddr,
    /// How long a connected relay may be silent before it is disconnected
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = clap::value_parser!(u64).range(1..=86400))]
    silence: u64,
    /// Run at the source, controlled by vrdma migrate with lines of JSON
    #[arg(long, hide = true)]
    send: bool,
    /// Mount a file for the relay at the source, and wait for the end of its input
    #[arg(long, hide = true)]
    mount: bool,
    /// This process is in the adapter's environment already
    #[arg(long, hide = true)]
    inside: bool,
}

pub(crate) fn run(client: &Client, options: &RelayOptions) -> Result<Report, Failure> {
    if options.send {
        return Ok(send());
    }
    if options.mount {
        let mounted = vrdma_relay::mount();
        mounted.map_err(|error| Failure::new(error.to_string()))?;
        exit(0);
    }
    let Some(process) = options.qemu else {
        return Err(Failure::new("name the process of QEMU with --qemu"));
    };
    if let Some(adapter) = options.adapter.as_ref().filter(|_| !options.inside) {
        let mut command = Command::new(this_program()?);
        command
            .args(std::env::args_os().skip(1))
            .arg("--inside")
            .envs(environment(client, adapter)?);
        let error = command.exec();
        return Err(Failure::new(format!("cannot start the relay: {error}")));
    }
    let failed = |why: vrdma_relay::Failure| Failure::new(why.to_string());
    let silence = Duration::from_secs(options.silence);
    let receiver = Receiver::new(options.listen, process, silence).map_err(failed)?;
    eprintln!("vrdma: waiting for a relay at {}", options.listen);
    let passed = receiver.run(&mut |what| eprintln!("vrdma: {what}"));
    let bytes = passed.map_err(failed)?.forwarded_bytes;
    let told = json!({ "answered_bytes": bytes, "processor_ms": processor_ms() });
    Ok(Report::new(&told, "the VM has come"))
}

/// How `vrdma migrate` starts the relay at the source.
pub(crate) fn program(client: &Client, adapter: &Name) -> Result<RelayProgram, Failure> {
    Ok(RelayProgram {
        program: this_program()?,
        arguments: ["relay", "--send"].map(OsString::from).to_vec(),
        variables: environment(client, adapter)?,
    })
}

fn this_program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot tell where this program is: {error}")))
}

/// The variables by which our library finds the adapter.
fn environment(client: &Client, name: &Name) -> Result<Vec<(OsString, OsString)>, Failure> {
    let status: Status = client.get(paths::STATUS)?;
    let adapter = usable(&status, name)?;
    let own = (
        paths::ADAPTER_VARIABLE.into(),
        adapter.name.as_str().to_owned().into(),
    );
    let socket = adapter.process_socket.as_ref();
    let socket = socket.map(|path| (paths::PROCESS_SOCKET_VARIABLE.into(), path.into()));
    Ok(std::iter::once(own).chain(socket).collect())
}

/// Reports the outcome as a line of JSON itself; a report for people would be in the way.
fn send() -> Report {
    let told = match sent() {
        Ok(passed) => RelayTold::Done {
            pages: passed.pages,
            forwarded_bytes: passed.forwarded_bytes,
            processor_ms: processor_ms(),
        },
        Err(why) => RelayTold::Failed { why },
    };
    tell(&told);
    exit(0)
}

/// Processor time of this process so far.
fn processor_ms() -> u64 {
    let taken = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
    taken.map_or(0, |taken| taken.as_millis() as u64)
}

fn sent() -> Result<Passed, String> {
    let mut line = String::new();
    let mut input = io::stdin().lock();
    let read = input.read_line(&mut line);
    read.map_err(|error| format!("cannot read what to send: {error}"))?;
    drop(input);
    end_with_input();
    let request: RelayRequest =
        serde_json::from_str(&line).map_err(|error| format!("not a request: {error}"))?;
    let blocks = request.blocks.into_iter().map(block).collect();
    let program = this_program().map_err(|why| why.to_string())?;
    let sending = Sending {
        to: request.to,
        process: request.process,
        blocks,
        mounter: Mounter {
            program,
            arguments: ["relay", "--mount"].map(str::to_owned).to_vec(),
        },
    };
    let sender = Sender::new(&sending).map_err(|why| why.to_string())?;
    let [source, destination] = sender.uris().clone();
    let file = sender.file().inspect_err(|why| {
        eprintln!("vrdma: {why}; QEMU's stream goes by a socket, which takes longer");
    });
    tell(&RelayTold::Ready {
        source,
        destination,
        file: file.ok().map(|path| path.display().to_string()),
    });
    sender.run().map_err(|why| why.to_string())
}

fn block(block: RelayBlock) -> SentBlock {
    SentBlock {
        here: block.source,
        there: block.destination,
        block: Block {
            name: block.name.into_bytes(),
            bytes: block.bytes,
            page_bytes: block.page_bytes,
        },
    }
}

/// Exits when the input ends: the parent process is gone then, and QEMU's socket is to be closed.
fn end_with_input() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        exit(ABANDONED);
    });
}

fn tell(told: &RelayTold) {
    let Ok(mut line) = serde_json::to_vec(told) else {
        return;
    };
    line.push(b'\n');
    // If nobody reads this, nobody could be told of the failure either.
    let mut output = io::stdout().lock();
    let _ = output.write_all(&line).and_then(|()| output.flush());
}
