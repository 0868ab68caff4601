//! Looks at the first message in a socket and leaves it there.
//!
//! **Which message owns descriptors?** The kernel ends a look with the bytes that came with descriptors. So they belong
//! to the first message if the look ends where that message ends, and to a later one if the look goes on: as on a
//! connection that is not kept, they belong to the message with the last byte. This needs room for one byte more than
//! the message.

use std::io::IoSliceMut;
use std::os::fd::AsFd;

use rustix::io::Errno;

use super::calls::{self, Received, Seen};
use super::connection::{Client, Closed, READ_BYTES};
use crate::message::HEADER_SIZE;
use crate::session::SessionError;
use crate::state::Head;

/// The item at the front of the stream.
pub(super) enum Found {
    /// Nothing so far.
    Nothing,
    /// The client hung up.
    End,
    /// A message that one look does not show with everything that belongs to it.
    Piece,
    /// A whole message, which is in the session's space.
    Whole {
        head: Head,
        received: Received,
        /// Whether more follows the message.
        has_more: bool,
    },
}

/// Looks at the first message.
pub(super) fn first_message(client: &mut Client) -> Result<Found, Closed> {
    match look(client) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(Found::Nothing),
        Err(errno) => Err(Closed::Io(errno)),
        Ok(seen) => found(client, seen),
    }
}

/// Whether the first header is this one. The whole message is in memory then.
pub(super) fn is_first(client: &mut Client, head: &Head) -> Result<bool, Errno> {
    let space = &mut client.session.space()[..head.size];
    let seen = calls::look(client.socket.as_fd(), &mut [IoSliceMut::new(space)])?;
    Ok(space[..seen.length].starts_with(&head.bytes))
}

fn look(client: &mut Client) -> Result<Seen, Errno> {
    let space = &mut client.session.space()[..READ_BYTES];
    calls::look(client.socket.as_fd(), &mut [IoSliceMut::new(space)])
}

fn look_again(client: &mut Client, head: &Head) -> Result<Seen, Errno> {
    let (space, mut behind) = (&mut client.session.space()[..head.size], [0]);
    let mut space = [IoSliceMut::new(space), IoSliceMut::new(&mut behind)];
    calls::look(client.socket.as_fd(), &mut space)
}

fn found(client: &mut Client, mut seen: Seen) -> Result<Found, Closed> {
    if seen.length == 0 {
        return Ok(Found::End);
    }
    let bytes = &client.session.space()[..seen.length];
    let Some(bytes) = bytes.first_chunk::<HEADER_SIZE>() else {
        return Ok(Found::Piece);
    };
    let head = Head::parse(*bytes).map_err(SessionError::from)?;
    if !head.fits() {
        return Ok(Found::Piece);
    }
    if head.size >= READ_BYTES {
        seen = look_again(client, &head).map_err(Closed::Io)?;
    }
    if seen.length < head.size {
        return Ok(Found::Piece);
    }
    let has_more = seen.length > head.size;
    let received = if seen.has_fds && !has_more {
        let space = &mut client.session.space()[..head.size];
        calls::peek(client.socket.as_fd(), space, &client.closing).map_err(Closed::Io)?
    } else {
        Received {
            length: head.size,
            fds: Vec::new(),
            lost: false,
        }
    };
    if received.length < head.size {
        return Ok(Found::Piece);
    }
    Ok(Found::Whole {
        head,
        received,
        has_more,
    })
}
