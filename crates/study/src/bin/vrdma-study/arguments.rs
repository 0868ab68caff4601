//! The command line's grammar and its manual.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Published studies of RDMA in VMs, reproduced on this machine side by side
///
/// Starts its own daemon, guests, containers and processes, runs the tools that the studies ran, and
/// puts what they say beside the published numbers.
#[derive(Debug, Parser)]
#[command(
    name = "vrdma-study",
    bin_name = "vrdma study",
    version,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    /// Print JSON
    ///
    /// Failures are an object with the one field "error", on standard error.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the studies and their cells
    List {
        /// Studies (s0), measures (s0/send-lat-polling) or cells (s4/write-lat/F); all without one
        names: Vec<String>,
    },
    /// Measure, or go on where the last run in this folder ended
    ///
    /// Guests are booted from an image that is built once (mmdebstrap); containers need bubblewrap. The guests' agent
    /// is vrdma-lab-agent beside this program, or what VRDMA_LAB_AGENT names; in a checkout it is compiled. A
    /// cell that fails is kept with its reason, and the run goes on. After Ctrl-C the present turn is
    /// ended; another Ctrl-C ends at once. Either way the same command goes on later.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunOptions),
    /// Write report.html and report.md: published, ours, and the ratios that carry over
    Report(ReportOptions),
    /// Put the medians of two runs side by side
    #[command(after_help = "Example: vrdma study compare before/results.json after/results.json")]
    Compare {
        /// The results.json of one run
        a: PathBuf,
        /// Of the other
        b: PathBuf,
    },
}

/// Where results go unless something else is said.
const FOLDER: &str = "vrdma-study";

const RUN_EXAMPLES: &str = "\
Examples:
  vrdma study run s4 --short
  vrdma study run s0/send-lat-polling s1 --repetitions 7
  vrdma study run && vrdma study report";

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Studies (s0), measures (s0/send-lat-polling) or cells (s4/write-lat/F); all without one
    pub(crate) names: Vec<String>,
    /// Fewer messages, fewer repetitions, smaller files
    #[arg(long)]
    pub(crate) short: bool,
    /// How often each cell is measured: 5, with --short 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repetitions: Option<u32>,
    /// Begin no measurement after so many minutes; cells that were not reached say so, and the same command goes on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) minutes: Option<u64>,
    /// Folder of the results
    #[arg(long, default_value = FOLDER, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// Our libibverbs, unless it is beside this program
    #[arg(long, value_name = "PATH")]
    pub(crate) library: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// The run's folder, or its results.json
    #[arg(long, default_value = FOLDER, value_name = "PATH")]
    pub(crate) out: PathBuf,
    /// Where the report goes; the run's folder if absent
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: Option<PathBuf>,
    /// A Markdown file with marks for a few of the ratios, which are written there
    #[arg(long, value_name = "FILE")]
    pub(crate) quote: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_and_option_is_explained() {
        explained(&Arguments::command());
    }

    fn explained(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{}", argument.get_id());
        }
        command.get_subcommands().for_each(explained);
    }
}
