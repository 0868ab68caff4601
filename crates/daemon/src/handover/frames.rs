//! Frames of a connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use vrdma_handover::{HELLO_BYTES_MAX, LENGTH_BYTES, NoSession, Session};

/// How long the other end may take to send or to accept a frame.
pub(super) const FRAME_LIMIT: Duration = Duration::from_secs(5);

/// Writes one frame.
pub(super) async fn write(stream: &mut TcpStream, frame: &[u8]) -> io::Result<()> {
    timeout(FRAME_LIMIT, stream.write_all(frame)).await?
}

/// Reads the body of the first frame, from an end that has proven nothing.
pub(super) async fn read_hello(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    timeout(FRAME_LIMIT, read_body(stream, HELLO_BYTES_MAX)).await?
}

async fn read_body(stream: &mut TcpStream, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length).await?;
    let length = usize::from(u16::from_be_bytes(length));
    if length > bytes_max {
        return Err(io::Error::other(NoSession::Stranger));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

/// A connection whose ends have authenticated each other.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) stream: TcpStream,
    pub(super) session: Session,
}

impl Sealed {
    /// Sends one message.
    pub(super) async fn say(&mut self, plain: &[u8]) -> io::Result<()> {
        let frame = self.session.seal(plain).map_err(io::Error::other)?;
        write(&mut self.stream, &frame).await
    }

    /// Receives the next message.
    pub(super) async fn hear(&mut self) -> io::Result<Vec<u8>> {
        let body = timeout(
            FRAME_LIMIT,
            read_body(&mut self.stream, usize::from(u16::MAX)),
        );
        let body = body.await??;
        self.session.open(&body).map_err(io::Error::other)
    }
}
