//! The daemon's end, which no stuck thread holds up.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;
use vrdma_keep::complain;
use vrdma_threads::Vital;

use super::ServiceError;

/// How long the threads may take to end.
const END_MAX: Duration = Duration::from_millis(300);

/// How long the threads may take to free what they own; the kernel frees it otherwise.
const FREE_MAX: Duration = Duration::from_millis(300);

/// Completes when the daemon is to end.
pub(super) type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// SIGTERM and SIGINT. The first signal ends the daemon in order, the second one at once.
pub(super) struct StopSignals {
    came: watch::Receiver<bool>,
}

impl StopSignals {
    /// Installs the handlers before the daemon says that it is ready, so that an early signal ends it cleanly.
    pub(super) fn new() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let (sender, came) = watch::channel(false);
        tokio::spawn(take(terminate, interrupt, sender));
        Ok(Self { came })
    }

    /// Completes at the first signal.
    pub(super) fn first(&self) -> Ending {
        let mut came = self.came.clone();
        Box::pin(async move {
            // The sender lives as long as the runtime.
            let _ = came.wait_for(|came| *came).await;
        })
    }
}

async fn take(mut terminate: Signal, mut interrupt: Signal, came: watch::Sender<bool>) {
    for is_first in [true, false] {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if is_first {
            came.send_replace(true);
        }
    }
    complain(format_args!(
        "vrdmad: a second signal ends it at once; its sockets stay until the next start"
    ));
    std::process::exit(1);
}

/// Waits for SIGHUP, if another worker would go on for this one. Otherwise SIGHUP is logged and ignored: reloading a
/// service is not meant to end its connections.
pub(super) async fn hang_up(is_kept: bool) {
    let mut came = match signal(SignalKind::hangup()) {
        Ok(came) => came,
        Err(error) => {
            tracing::warn!("cannot wait for SIGHUP: {error}");
            return std::future::pending().await;
        }
    };
    while came.recv().await.is_some() {
        if is_kept {
            tracing::info!("another worker takes over");
            return;
        }
        tracing::warn!(
            "SIGHUP is ignored: supervise is off, so nobody could go on for this daemon; restart it instead"
        );
    }
    std::future::pending().await
}

/// Returns the name of the thread that ends first.
pub(super) async fn first_end(vitals: &[Arc<Vital>]) -> String {
    let (first, mut ended) = tokio::sync::mpsc::channel(1);
    for vital in vitals {
        let (vital, first) = (Arc::clone(vital), first.clone());
        tokio::spawn(async move {
            vital.ended().await;
            let _ = first.try_send(vital.name().to_owned());
        });
    }
    drop(first);
    ended.recv().await.unwrap_or_default()
}

/// Waits for threads that were told to end.
pub(super) async fn end(
    vitals: &[Arc<Vital>],
    threads: Vec<JoinHandle<()>>,
) -> Result<(), ServiceError> {
    let all = async {
        for vital in vitals {
            vital.ended().await;
        }
    };
    if timeout(END_MAX, all).await.is_err() {
        return Err(ServiceError::Broken(stuck(vitals).await));
    }
    let joined = tokio::task::spawn_blocking(|| {
        let ends = threads.into_iter().map(JoinHandle::join);
        ends.fold(true, |all, end| all & end.is_ok())
    });
    match timeout(FREE_MAX, joined).await {
        Ok(Ok(true)) => Ok(()),
        Ok(_) => Err(ServiceError::Broken(
            "a data path thread panicked; see the log above".to_owned(),
        )),
        Err(_) => {
            tracing::info!("the kernel frees what the data path has not freed yet");
            Ok(())
        }
    }
}

/// Describes the threads that do not end.
async fn stuck(vitals: &[Arc<Vital>]) -> String {
    let mut names = Vec::new();
    for vital in vitals {
        if timeout(Duration::ZERO, vital.ended()).await.is_err() {
            names.push(vital.name());
        }
    }
    format!(
        "stopped without {}, which stands still; its sockets stay until the next start",
        names.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use vrdma_threads::{Inbox, Line};

    fn line(name: &str) -> (Arc<Vital>, Inbox<()>) {
        let (line, inbox) = Line::<()>::new(name.to_owned()).unwrap();
        (Arc::clone(line.vital()), inbox)
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let paused = runtime.enable_time().start_paused(true).build();
        paused.unwrap().block_on(future)
    }

    #[test]
    fn a_thread_that_ends_by_itself_is_named() {
        let ((shard, _goes_on), (ethernet, ends)) = (line("shard 0"), line("ethernet"));
        drop(ends);
        assert_eq!(block_on(first_end(&[shard, ethernet])), "ethernet");
    }

    #[test]
    fn threads_that_do_not_end_are_named_and_not_waited_for() {
        let ((first, _goes_on), (second, ends)) = (line("shard 0"), line("shard 1"));
        drop(ends);
        let outcome = block_on(end(&[first, second], Vec::new()));
        let sentence = outcome.unwrap_err().to_string();
        assert!(
            sentence.starts_with("stopped without shard 0, which"),
            "{sentence}"
        );
    }
}
