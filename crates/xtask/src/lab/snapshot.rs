//! `cargo xtask lab snapshot`: guests that are saved, continue, and are restored.
//!
//! ```text
//!   guest a ── ibv_rc_pingpong -c ── guest b        both stop, are saved, and run on to the program's end
//!   both go back together: the program ends well once more, after each byte was compared
//!   a goes back alone:     the program there ends with an error, and a new one works
//! ```

use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};
use vrdma_lab::wire::WireConfig;
use vrdma_migration::qmp::Monitor;

use crate::guests::{objects, with_device};

const SIDES: [Side; 2] = [Side::A, Side::B];

/// Long enough to be saved in the middle on any machine.
const PROGRAM: &str = "ibv_rc_pingpong -d $DEV -g 1 -c -s 16384 -n 8000";

/// The same, for a short check.
const SHORT: &str = "ibv_rc_pingpong -d $DEV -g 1 -c -s 16384 -n 100";

/// Longest time until a program has ended.
const PATIENCE: Duration = Duration::from_secs(300);

struct Stage {
    pair: Pair,
    vrdma: std::path::PathBuf,
}

pub(super) fn run() -> Result<ExitCode> {
    let program = super::daemon(false)?;
    let vrdma = super::built("vrdma", false)?;
    let wire = WireConfig::default();
    let pair = Pair::start(&PairConfig {
        travels: true,
        memory_mib: 256,
        ..PairConfig::new(Network::Wire { program, wire })
    })?;
    let mut stage = Stage { pair, vrdma };
    if let Err(error) = stage.play() {
        eprintln!("{}", stage.pair.logs());
        return Err(error);
    }
    println!("saved, gone back together, and gone back alone: ok");
    Ok(ExitCode::SUCCESS)
}

impl Stage {
    fn play(&mut self) -> Result<()> {
        eprintln!("saving both guests under {PROGRAM} ...");
        self.begin(PROGRAM)?;
        objects::wait_for_traffic(&self.pair, &self.vrdma)?;
        SIDES
            .iter()
            .try_for_each(|side| self.order(*side, "stop"))?;
        SIDES.iter().try_for_each(|side| self.save(*side))?;
        SIDES
            .iter()
            .try_for_each(|side| self.order(*side, "cont"))?;
        self.expect("after the snapshot", [true; 2])?;
        eprintln!("both go back ...");
        self.go_back(&SIDES, &["--keep-connections"])?;
        self.expect("after both went back", [true; 2])?;
        eprintln!("one goes back alone ...");
        self.go_back(&[Side::A], &[])?;
        let [a, _] = self.statuses()?;
        ensure!(
            a != 0,
            "a connection went on whose other end has long gone on"
        );
        self.begin(SHORT)?;
        self.expect("of a new program", [true; 2])
    }

    /// Starts server and client, which write into files: the lab's channel is another one after a restoration.
    fn begin(&self, command: &str) -> Result<()> {
        self.detach(Side::A, command)?;
        let listens = "for i in $(seq 200); do grep -qs ':4853 [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6 && exit 0; \
                       sleep 0.1; done; cat /tmp/out; exit 1";
        self.pair
            .guest(Side::A)
            .check(listens)
            .context("the server does not listen")?;
        self.detach(Side::B, &format!("{command} $A"))
    }

    fn detach(&self, side: Side, command: &str) -> Result<()> {
        let command = with_device(command);
        let started = format!(
            "rm -f /tmp/status; export A=$A; setsid sh -c '({command}) > /tmp/out 2>&1; echo $? > /tmp/status' \
             < /dev/null > /dev/null 2>&1 &"
        );
        self.pair.guest(side).check(&started).map(drop)
    }

    fn expect(&self, when: &str, good: [bool; 2]) -> Result<()> {
        let statuses = self.statuses()?;
        let is_good = statuses.map(|status| status == 0);
        if is_good == good {
            return Ok(());
        }
        for side in SIDES {
            let told = self
                .pair
                .guest(side)
                .check("cat /tmp/out; dmesg | tail -20");
            eprintln!("{}: {}", side.name(), told.unwrap_or_default());
        }
        bail!("{when}: the program ended with {statuses:?}");
    }

    fn statuses(&self) -> Result<[i32; 2]> {
        Ok([self.status(Side::A)?, self.status(Side::B)?])
    }

    fn status(&self, side: Side) -> Result<i32> {
        let deadline = Instant::now() + PATIENCE;
        let guest = self.pair.guest(side);
        loop {
            let status = guest.check("cat /tmp/status 2> /dev/null || true")?;
            if let Ok(status) = status.trim().parse() {
                return Ok(status);
            }
            ensure!(
                Instant::now() < deadline,
                "the program at {} hangs",
                side.name()
            );
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn order(&self, side: Side, command: &str) -> Result<()> {
        let mut monitor = Monitor::connect(&self.pair.monitor(side))?;
        monitor.execute(command, json!({}))?;
        Ok(())
    }

    fn save(&self, side: Side) -> Result<()> {
        self.vrdma("save", side, &self.pair.monitor(side), &[])
    }

    /// Restores the guests to what was saved, each in another QEMU.
    fn go_back(&mut self, sides: &[Side], options: &[&str]) -> Result<()> {
        let mut waiting = Vec::new();
        for side in sides {
            waiting.push(self.pair.expect_back(*side)?);
        }
        for (side, arriving) in sides.iter().zip(&waiting) {
            self.vrdma("restore", *side, &arriving.monitor(), options)?;
        }
        for arriving in &waiting {
            let mut monitor = Monitor::connect(&arriving.monitor())?;
            monitor.execute("cont", json!({}))?;
        }
        for arriving in waiting {
            self.pair.arrived(arriving)?;
        }
        Ok(())
    }

    fn vrdma(
        &self,
        command: &str,
        side: Side,
        monitor: &std::path::Path,
        options: &[&str],
    ) -> Result<()> {
        let file = |kind: &str| self.pair.run_dir().join(format!("{}.{kind}", side.name()));
        let output = Command::new(&self.vrdma)
            .arg("--socket")
            .arg(self.pair.daemon_of(side).control_socket())
            .args(["adapter", command, side.name()])
            .arg(file("adapter"))
            .arg("--qmp")
            .arg(monitor)
            .arg("--memory")
            .arg(file("memory"))
            .args(options)
            .output()
            .context("cannot start vrdma")?;
        ensure!(
            output.status.success(),
            "vrdma adapter {command} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        print!("{}", String::from_utf8_lossy(&output.stdout));
        Ok(())
    }
}
