//! Time that threads waited for a processor, as the scheduler counts it (`/proc/PID/task/TID/schedstat`, its second
//! number, in ns).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// The calling thread and the shards of this process.
pub(crate) struct Waits(Vec<File>);

impl Waits {
    pub(crate) fn new() -> Self {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let shards = tasks.map(|task| task.unwrap().path()).filter(is_shard);
        let all = shards.chain(["/proc/thread-self".into()]);
        Self(
            all.map(|task| File::open(task.join("schedstat")).unwrap())
                .collect(),
        )
    }

    /// Returns the sum over all these threads, since they began.
    pub(crate) fn total(&self) -> Duration {
        self.0.iter().map(waited).sum()
    }
}

fn is_shard(task: &impl AsRef<Path>) -> bool {
    // A thread of another test may have ended meanwhile.
    let name = fs::read_to_string(task.as_ref().join("comm"));
    name.is_ok_and(|name| name.starts_with("shard"))
}

fn waited(statistics: &File) -> Duration {
    let mut line = [0; 64];
    let count = statistics.read_at(&mut line, 0).unwrap_or(0);
    let text = std::str::from_utf8(&line[..count]).unwrap_or_default();
    let wait = text.split_whitespace().nth(1);
    Duration::from_nanos(wait.map_or(0, |wait| wait.parse().unwrap()))
}
