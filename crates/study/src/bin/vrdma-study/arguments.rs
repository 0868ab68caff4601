//! The command line's grammar and its manual.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Published studies of RDMA in VMs, reproduced on this machine side by side
///
/// Starts its own daemon, guests, containers and processes, runs the tools that the studies ran, and compares their
/// figures with the published numbers.
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
        /// Studies (s0), measures (s0/send-lat-polling) or cells (s4/write-lat/F); all if absent
        names: Vec<String>,
    },
    /// Measure, or continue where the last run in this folder ended
    ///
    /// Guests are booted from an image that is built once (mmdebstrap); containers need bubblewrap. The guests' agent
    /// is vrdma-lab-agent beside this program, or the file that VRDMA_LAB_AGENT names; in a checkout it is compiled. A
    /// cell that fails is kept with its reason, and the run continues. After Ctrl-C the present turn is completed;
    /// another Ctrl-C ends at once. In both cases the same command continues later.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunOptions),
    /// Write report.html and report.md: published figures, ours, and the ratios that can be compared between machines
    Report(ReportOptions),
    /// Put the medians of two runs side by side
    #[command(after_help = "Example: vrdma study compare before/results.json after/results.json")]
    Compare {
        /// The results.json of one run
        a: PathBuf,
        /// The results.json of the other run
        b: PathBuf,
    },
}

/// Default folder of results.
const FOLDER: &str = "vrdma-study";

const RUN_EXAMPLES: &str = "\
Examples:
  vrdma study run s4 --short
  vrdma study run s0/send-lat-polling s1 --repetitions 7
  vrdma study run && vrdma study report";

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Studies (s0), measures (s0/send-lat-polling) or cells (s4/write-lat/F); all if absent
    pub(crate) names: Vec<String>,
    /// Fewer messages, fewer repetitions, smaller files
    #[arg(long)]
    pub(crate) short: bool,
    /// How often each cell is measured: 5, with --short 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repetitions: Option<u32>,
    /// Begin no measurement after this many minutes; cells that were not reached are marked, and the same command
    /// continues
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
    /// Folder of the report; the run's folder if absent
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: Option<PathBuf>,
    /// A Markdown file with marks, between which a few of the ratios are written
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
