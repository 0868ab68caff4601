//! Runs one libFuzzer process for each target, and reads its output.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::folders::{Folders, files};
use super::program::Program;
use super::totals::Tally;

/// The longest input that is generated: longer ones are slower and reach nothing new.
const INPUT_BYTES_MAX: usize = 4096;

/// Seconds after which an input counts as one that never ends. Slow machines and debug assertions take far less.
const ENDLESS_SECONDS: u32 = 20;

/// Memory of one process.
const MEMORY_MIB_MAX: u32 = 2048;

/// Most bytes of inputs of one target that the repository keeps; the sum of all has a limit in `crates/fuzz`.
const KEPT_BYTES_MAX: u64 = 96 << 10;

/// Most inputs that are kept; of more, a selection of short and long ones alike.
const KEPT_MAX: usize = 250;

/// Lines that are shown of a process that failed without keeping an input.
const LAST_LINES: usize = 20;

/// How often a running target reports its progress.
const TOLD_APART: Duration = Duration::from_secs(30);

/// The results of a target.
#[derive(Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) target: String,
    pub(super) executions: u64,
    pub(super) per_second: u64,
    /// Inputs that each reach something.
    pub(super) corpus: u64,
    /// Inputs that made it fail.
    pub(super) found: Vec<PathBuf>,
    /// The program that runs one of them again.
    pub(super) program: PathBuf,
}

/// Runs each target for this time, and adds it to the totals when it has ended.
pub(super) fn run_all(
    folders: &Folders,
    tally: &Tally,
    programs: &[Program],
    each: Duration,
    jobs: usize,
) -> Result<Vec<Figures>> {
    let waiting = Mutex::new(programs.iter().enumerate().collect::<VecDeque<_>>());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((at, program)) = next(&waiting) {
                    let figures = run(folders, program, each);
                    let figures = figures.and_then(|it| tally.add(&it).map(|()| it));
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((at, figures));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, figures)| figures).collect()
}

fn next<'a>(waiting: &Mutex<VecDeque<(usize, &'a Program)>>) -> Option<(usize, &'a Program)> {
    waiting
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pop_front()
}

fn run(folders: &Folders, program: &Program, each: Duration) -> Result<Figures> {
    let name = &program.target;
    let found = folders.found(name)?;
    let before = files(&found)?;
    let begin = Instant::now();
    let mut process = fuzzer(program)
        .arg(format!("-max_total_time={}", each.as_secs()))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"))
        .arg(format!("-artifact_prefix={}/", found.display()))
        .args(folders.inputs(name)?)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", program.path.display()))?;
    let words = process.stderr.take().context("its words are lost")?;
    let mut told = Told::default();
    told.listen(name, words);
    let status = process.wait()?;
    let after = files(&found)?;
    let new: Vec<PathBuf> = after
        .into_iter()
        .filter(|file| !before.contains(file))
        .collect();
    if !status.success() {
        // The failure may not be reproducible with the input that was kept.
        eprintln!("{name} failed:\n{}", told.last_lines());
        ensure!(!new.is_empty(), "{name} failed, and kept no input");
    }
    let executions = told.executions;
    eprintln!("{name}: {executions} executions, {} failed", new.len());
    Ok(Figures {
        target: name.clone(),
        executions,
        per_second: (executions as f64 / begin.elapsed().as_secs_f64()) as u64,
        corpus: told.corpus,
        found: new,
        program: program.path.clone(),
    })
}

fn fuzzer(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    command
        .arg(format!("-timeout={ENDLESS_SECONDS}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"))
        .args(["-print_final_stats=1", "-report_slow_units=5"]);
    command
}

/// What a process has printed so far.
#[derive(Default)]
pub(super) struct Told {
    pub(super) executions: u64,
    pub(super) corpus: u64,
    last: VecDeque<String>,
}

impl Told {
    fn listen(&mut self, name: &str, words: impl Read) {
        let mut said = Instant::now();
        for line in BufReader::new(words).split(b'\n').map_while(Result::ok) {
            self.take(&String::from_utf8_lossy(&line));
            if said.elapsed() >= TOLD_APART {
                said = Instant::now();
                eprintln!(
                    "{name}: {} executions, {} inputs",
                    self.executions, self.corpus
                );
            }
        }
    }

    /// Reads `#4096`, a tab and `NEW cov: 64 ft: 90 corp: 12/30b ...`, or `stat::number_of_executed_units: 5000`.
    pub(super) fn take(&mut self, line: &str) {
        if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = number.trim().parse().unwrap_or(self.executions);
        } else if let Some((number, rest)) =
            line.strip_prefix('#').and_then(|it| it.split_once('\t'))
        {
            self.executions = number.parse().unwrap_or(self.executions);
            let corpus = rest
                .split_once("corp: ")
                .and_then(|(_, it)| it.split('/').next());
            self.corpus = corpus.and_then(|it| it.parse().ok()).unwrap_or(self.corpus);
        } else {
            self.last.push_back(line.to_owned());
        }
        if self.last.len() > LAST_LINES {
            self.last.pop_front();
        }
    }

    fn last_lines(&self) -> String {
        Vec::from_iter(self.last.iter().map(String::as_str)).join("\n")
    }
}

/// Puts the smallest inputs that reach as much code as all into the repository, up to its limits.
pub(super) fn keep(folders: &Folders, program: &Program) -> Result<()> {
    let name = &program.target;
    let minimal = folders.minimal(name)?;
    let output = fuzzer(program)
        .args(["-merge=1"])
        .arg(&minimal)
        .args(folders.inputs(name)?)
        .output()
        .with_context(|| format!("cannot start {}", program.path.display()))?;
    ensure!(
        output.status.success(),
        "the inputs of {name} cannot be merged"
    );
    let mut kept = Vec::new();
    for file in files(&minimal)? {
        kept.push((fs::metadata(&file)?.len(), file));
    }
    kept.sort();
    let corpus = folders.corpus(name);
    if corpus.is_dir() {
        fs::remove_dir_all(&corpus)?;
    }
    fs::create_dir_all(&corpus)?;
    let step = kept.len().div_ceil(KEPT_MAX).max(1);
    let mut room = KEPT_BYTES_MAX;
    for (bytes, file) in kept.into_iter().step_by(step) {
        let Some(rest) = room.checked_sub(bytes) else {
            break;
        };
        room = rest;
        fs::copy(
            &file,
            corpus.join(file.file_name().context("a file without a name")?),
        )?;
    }
    Ok(())
}
