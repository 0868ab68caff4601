//! One program at a time, which runs whenever a process ends, through as many rows as it has messages for.
//!
//! ```text
//!   none ──► under way ──few messages are left──► awaited ──► none
//! ```

use std::path::Path;

use anyhow::Result;
use vrdma_lab::pair::Pair;

use crate::guests::objects;
use crate::lab::migrate::program::{Program, complaint};
use crate::lab::migrate::{Peer, rows};

/// The program, which compares every byte.
const COMMAND: &str = "ibv_rc_pingpong -d $DEV -g 1 -c -s 16384 -n";

/// Messages of each side.
const MESSAGES: u64 = 20_000;

/// Messages that most rows need: they are counted by the thousand, and a slow copy and a failed migration take their
/// time.
const OF_A_ROW: u64 = 8_000;

pub(super) struct Traffic<'a> {
    vrdma: &'a Path,
    current: Option<Current>,
    /// Number of programs that ended.
    pub(super) ended: u32,
    /// The problem of the first program that failed.
    pub(super) problem: Option<String>,
}

struct Current {
    program: Program,
    /// Messages that adapters had sent before it.
    before: u64,
}

/// The command of a program.
pub(super) fn command() -> rows::Command {
    rows::Command::of_both(format!("{COMMAND} {MESSAGES}"))
}

impl<'a> Traffic<'a> {
    pub(super) fn new(vrdma: &'a Path) -> Self {
        Self {
            vrdma,
            current: None,
            ended: 0,
            problem: None,
        }
    }

    /// Ensures that messages flow, and that the program has enough of them for a row.
    pub(super) fn last_for_a_row(&mut self, pair: &Pair) -> Result<()> {
        let now = objects::messages(pair, self.vrdma)?;
        let current = self.current.as_ref();
        // The counters are those of both sides, and restart when an adapter is reset.
        let sent = current.map(|current| now.saturating_sub(current.before) / 2);
        if sent.is_none_or(|sent| sent + OF_A_ROW > MESSAGES) {
            self.start_another(pair)?;
        }
        self.wait_for_messages(pair)
    }

    /// Waits for messages after a row: of another program, if this one ended during the wait for a relay's silence.
    pub(super) fn flows(&mut self, pair: &Pair) -> Result<()> {
        if !self.has_ended() {
            let flows = self.wait_for_messages(pair);
            // Its last messages may have been too few.
            if flows.is_ok() || !self.has_ended() {
                return flows;
            }
        }
        self.start_another(pair)?;
        self.wait_for_messages(pair)
    }

    fn has_ended(&mut self) -> bool {
        let current = self.current.as_mut();
        current.is_some_and(|current| current.program.has_ended())
    }

    fn start_another(&mut self, pair: &Pair) -> Result<()> {
        self.finish(pair)?;
        let before = objects::messages(pair, self.vrdma)?;
        let program = Program::start(pair, &command(), Peer::Vm)?;
        self.current = Some(Current { program, before });
        Ok(())
    }

    fn wait_for_messages(&self, pair: &Pair) -> Result<()> {
        let flows = objects::wait_for_traffic(pair, self.vrdma);
        if let (Err(_), Some(current)) = (&flows, &self.current) {
            current.program.tell(pair);
        }
        flows
    }

    /// Waits for the program to end.
    pub(super) fn finish(&mut self, pair: &Pair) -> Result<()> {
        let Some(mut current) = self.current.take() else {
            return Ok(());
        };
        let statuses = current.program.statuses(pair, self.vrdma)?;
        self.ended += 1;
        if self.problem.is_none() {
            self.problem = complaint(&statuses);
        }
        Ok(())
    }
}
