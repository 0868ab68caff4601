//! Sockets by their numbers.

use core::ffi::c_int;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use super::datagram::Datagrams;
use super::options::Options;
use super::stream::Stream;
use crate::cm::abi;
use crate::cm::channel::rdma_destroy_event_channel;
use crate::cm::identifier::rdma_destroy_id;
use crate::cm::qp::rdma_destroy_qp;
use crate::errno::{Errno, Result};

/// The state of a socket.
pub(super) enum Stage {
    /// Fresh or bound.
    New,
    /// Waits for calls.
    Listening,
    /// Has called or answered, and waits for the other side. The stream is ready.
    Waiting(Box<Stream>),
    /// Messages flow, or did.
    Connected(Box<Stream>),
    /// The attempt to connect failed with this error.
    Failed(c_int),
    /// A datagram socket, in any state.
    Datagram(Box<Datagrams>),
}

/// Memory that the peer may write.
pub(super) struct Mapped {
    pub(super) index: usize,
    pub(super) address: usize,
    pub(super) mr: *mut crate::abi::Mr,
}

// SAFETY: a region, which may be used from any thread.
unsafe impl Send for Mapped {}

/// The state that the lock of a socket protects.
pub(super) struct State {
    pub(super) id: *mut abi::Id,
    pub(super) channel: *mut abi::EventChannel,
    pub(super) stage: Stage,
    pub(super) options: Options,
    pub(super) mapped: Vec<Mapped>,
}

// SAFETY: identifiers and channels may be used from any thread.
unsafe impl Send for State {}

/// A socket.
pub(super) struct Socket {
    pub(super) is_datagram: bool,
    pub(super) state: Mutex<State>,
}

impl State {
    pub(super) fn stream(&mut self) -> Result<&mut Stream> {
        match &mut self.stage {
            Stage::Connected(stream) => Ok(stream),
            Stage::Failed(error) => Err(Errno(*error)),
            _ => Err(Errno(libc::ENOTCONN)),
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: all of it is the socket's own, which nobody uses any more.
        unsafe {
            rdma_destroy_qp(self.id);
            for mapped in self.mapped.drain(..) {
                crate::memory::ibv_dereg_mr(mapped.mr);
            }
            match std::mem::replace(&mut self.stage, Stage::New) {
                Stage::Connected(stream) | Stage::Waiting(stream) => stream.release(),
                // Their questions use identifiers of the channel.
                Stage::Datagram(datagrams) => drop(datagrams),
                Stage::New | Stage::Listening | Stage::Failed(_) => {}
            }
            rdma_destroy_id(self.id);
            rdma_destroy_event_channel(self.channel);
        }
    }
}

static SOCKETS: LazyLock<Mutex<HashMap<c_int, Arc<Socket>>>> = LazyLock::new(Mutex::default);

/// Returns the socket of a number; `EBADF` if there is none.
pub(super) fn find(fd: c_int) -> Result<Arc<Socket>> {
    SOCKETS.lock().get(&fd).cloned().ok_or(Errno(libc::EBADF))
}

/// Gives a socket its number, which is its channel's descriptor; returns it.
pub(super) fn insert(state: State) -> c_int {
    // SAFETY: the socket's own channel.
    let fd = unsafe { (*state.channel).fd };
    let socket = Socket {
        is_datagram: matches!(state.stage, Stage::Datagram(_)),
        state: Mutex::new(state),
    };
    SOCKETS.lock().insert(fd, Arc::new(socket));
    fd
}

pub(super) fn remove(fd: c_int) -> Result<Arc<Socket>> {
    SOCKETS.lock().remove(&fd).ok_or(Errno(libc::EBADF))
}
