//! Processor time of a process.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result};

/// Processor time of all threads, in nanoseconds: `/proc/PID/stat` counts in hundredths of a second.
pub(super) fn processor_time(process: u32) -> Result<Duration> {
    let tasks = Path::new("/proc").join(process.to_string()).join("task");
    let threads = fs::read_dir(&tasks).context("the daemon has ended")?;
    let times = threads.map(|thread| thread_time(&thread?.path().join("schedstat")));
    let total: io::Result<u64> = times.sum();
    Ok(Duration::from_nanos(
        total.context("this kernel does not count threads' time")?,
    ))
}

fn thread_time(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    let time = text.split(' ').next().and_then(|first| first.parse().ok());
    time.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
}
