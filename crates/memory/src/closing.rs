//! Closes descriptors that clients sent, in a thread of their user.
//!
//! `close` takes as long as the sender likes if the file is on a file system that the sender serves, or if it is a
//! socket with unsent data and a linger time. A socket with such descriptors unread is as bad: its own `close` closes
//! them. So the data path closes nothing that came from a client, and does not wait for the thread that does.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{SendError, Sender, channel};
use std::thread;

use parking_lot::Mutex;

/// Descriptors to be closed in a thread, which starts with the first descriptor and ends after the last. Descriptors
/// behind one that hangs stay open, so the descriptor limit bounds them; then clients wait, but messages do not.
#[derive(Default, Debug)]
pub(crate) struct Closing(Mutex<State>);

#[derive(Default, Debug)]
struct State {
    thread: Option<Sender<Vec<OwnedFd>>>,
    /// Descriptors to pass on once a thread can be started.
    waiting: Vec<OwnedFd>,
}

impl Closing {
    pub(crate) fn close(&self, files: Vec<OwnedFd>) {
        let State { thread, waiting } = &mut *self.0.lock();
        waiting.extend(files);
        if thread.is_none() {
            *thread = hire();
        }
        let Some(sender) = thread else { return };
        if let Err(SendError(files)) = sender.send(std::mem::take(waiting)) {
            (*waiting, *thread) = (files, None);
        }
    }
}

impl Drop for State {
    /// Forgets the descriptors: the dropping thread may not close them.
    fn drop(&mut self) {
        std::mem::forget(std::mem::take(&mut self.waiting));
    }
}

fn hire() -> Option<Sender<Vec<OwnedFd>>> {
    let (files, waiting) = channel::<Vec<OwnedFd>>();
    let thread = thread::Builder::new().name("closing".to_owned());
    let begun = thread.spawn(move || waiting.into_iter().for_each(drop));
    begun.ok().map(|_| files)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::net::sockopt::set_socket_linger;

    use super::*;

    /// Returns a socket whose `close` takes `time`, and its peer, which has to stay.
    fn lingering(time: Duration) -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        while socket.write(&[0; 65536]).is_ok() {}
        set_socket_linger(&socket, Some(time)).unwrap();
        (socket.into(), peer)
    }

    #[test]
    fn who_closes_waits_for_nobody() {
        let closing = Closing::default();
        let (hangs, peer) = lingering(Duration::from_secs(3600));
        closing.close(vec![hangs]);
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        closing.close(vec![write]);
        // It would have ended with the hour.
        let still_open = rustix::io::read(&read, &mut [0u8; 1]);
        assert_eq!(still_open, Err(Errno::AGAIN));
        drop(peer);
        while rustix::io::read(&read, &mut [0u8; 1]) != Ok(0) {
            thread::yield_now();
        }
    }

    /// No descriptor stays open for good, however many wait behind one that hangs.
    #[test]
    fn what_waits_is_closed_in_the_end() {
        const MANY: usize = 10_000;
        let closing = Closing::default();
        let (hangs, peer) = lingering(Duration::from_secs(3600));
        closing.close(vec![hangs]);
        // Requests without a descriptor wait in the queue like others, and need none.
        (0..MANY).for_each(|_| closing.close(Vec::new()));
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        closing.close(vec![write]);
        drop(peer);
        while rustix::io::read(&read, &mut [0u8; 1]) != Ok(0) {
            thread::yield_now();
        }
    }
}
