//! The relay at the destination: lets QEMU's memory be written, and forwards the rest of the stream to QEMU.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::end::{Piece, SocketEnd};
use crate::failure::Failure;
use crate::guest::{At, Mapped};
use crate::link::{Link, Listener, Write};
use crate::message::{BLOCKS_MAX, Hello, Message, Ready, ReadyBlock, VERSION};
use crate::pump::{Passed, Pump, Role, last_words};
use crate::queue::{Queue, Run};
use crate::sending::{folder, next, rest};
use crate::stream::Sink;

/// A relay that waits for the source's relay.
pub struct Receiver {
    listener: Listener,
    process: u32,
    silence: Duration,
    folder: TempDir,
}

impl Receiver {
    /// Listens at an address of the adapter for the QEMU of this process. A connected relay is disconnected when it is
    /// silent for this long.
    ///
    /// # Errors
    /// When the adapter or the address cannot be used.
    pub fn new(at: SocketAddr, process: u32, silence: Duration) -> Result<Self, Failure> {
        Ok(Self {
            listener: Listener::new(at)?,
            process,
            silence,
            folder: folder()?,
        })
    }

    /// Serves relays until one has brought a VM. A relay that only looks, or whose request cannot be met, is reported
    /// to `heard`.
    ///
    /// # Errors
    /// When a migration that had begun fails.
    pub fn run(&self, heard: &mut dyn FnMut(&str)) -> Result<Passed, Failure> {
        loop {
            match self.serve() {
                Ok(Some(passed)) => return Ok(passed),
                Ok(None) => heard("a relay looked, and all is as it must be"),
                Err(Ended::Before(why)) => heard(&format!("a relay called in vain: {why}")),
                Err(Ended::Within(why)) => return Err(why),
            }
        }
    }

    fn serve(&self) -> Result<Option<Passed>, Ended> {
        let mut link = self.listener.accept().map_err(Ended::Within)?;
        let memory = match self.prepare(&mut link) {
            Ok(memory) => memory,
            Err(why) => {
                let _ = last_words(&mut link, &why);
                return Err(Ended::Before(why));
            }
        };
        match has_begun(&mut link, self.deadline()) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(why) => {
                let _ = last_words(&mut link, &why);
                return Err(Ended::Before(why));
            }
        }
        let passed = self.relay(&mut link).map_err(Ended::Within);
        link.disconnect();
        drop(link);
        drop(memory);
        passed.map(Some)
    }

    /// When a relay that sends nothing from now on is disconnected.
    fn deadline(&self) -> Option<Instant> {
        Some(Instant::now() + self.silence)
    }

    /// Maps and registers the blocks that the source wants to write.
    fn prepare(&self, link: &mut Link) -> Result<Vec<Mapped>, Failure> {
        let hello = match next(link, self.deadline())? {
            Some(Message::Hello(hello)) => checked(hello)?,
            _ => return Err(Failure::new("it does not say what it wants")),
        };
        let mut memory = Vec::new();
        let mut blocks = Vec::new();
        for block in &hello.blocks {
            let mapped = Mapped::new(At {
                process: self.process,
                address: block.address,
                bytes: block.bytes,
            })?;
            let region = link.register(&mapped, true)?;
            blocks.push(ReadyBlock {
                address: region.address,
                key: region.remote_key,
            });
            memory.push(mapped);
        }
        let uri = format!("unix:{}", self.socket().display());
        link.send(&Message::Ready(Ready { uri, blocks }))?;
        Ok(memory)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("destination.sock")
    }

    fn relay(&self, link: &mut Link) -> Result<Passed, Failure> {
        let socket = self.socket();
        let qemu = UnixStream::connect(&socket).map_err(|error| {
            Failure::new(format!(
                "the destination's QEMU does not listen at {}: {error}",
                socket.display()
            ))
        });
        let qemu = qemu.inspect_err(|why| drop(last_words(link, why)))?;
        let qemu = SocketEnd::new(qemu);
        let qemu = qemu.map_err(|error| Failure::new(format!("cannot use QEMU's socket: {error}")));
        let silence = self.silence;
        Pump::new(link, qemu?, Destination { silence }).run()
    }
}

/// Why serving a relay ended.
enum Ended {
    /// Before QEMU's stream began.
    Before(Failure),
    /// After QEMU's stream began.
    Within(Failure),
}

fn checked(hello: Hello) -> Result<Hello, Failure> {
    if hello.version != VERSION {
        return Err(Failure::new(format!(
            "its protocol is version {}, and this one's {VERSION}; use the same release everywhere",
            hello.version
        )));
    }
    if hello.blocks.is_empty() || hello.blocks.len() > BLOCKS_MAX {
        return Err(Failure::new(format!(
            "it has {} blocks, not 1 to {BLOCKS_MAX}",
            hello.blocks.len()
        )));
    }
    Ok(hello)
}

/// Waits for QEMU's stream, without taking it; whether it came before the other relay hung up.
fn has_begun(link: &mut Link, deadline: Option<Instant>) -> Result<bool, Failure> {
    loop {
        // A relay may hang up by exiting, which makes the poll fail.
        if link.poll().is_err() || link.has_ended() {
            return Ok(false);
        }
        if link.front().is_some() {
            return Ok(true);
        }
        rest(link, deadline).or_else(|why| if link.has_ended() { Ok(()) } else { Err(why) })?;
    }
}

/// The role of the destination: forwards everything unchanged.
struct Destination {
    silence: Duration,
}

impl Role for Destination {
    const QEMU: &'static str = "the destination's QEMU";

    fn outward(&mut self, piece: Piece<'_>, queue: &mut Queue) -> Result<usize, Failure> {
        queue.forward(piece.bytes);
        Ok(piece.bytes.len())
    }

    /// A QEMU that sends a VM sends something all the time, and the source's relay forwards it.
    fn silence(&self) -> Option<Duration> {
        Some(self.silence)
    }

    fn place(&self, _run: Run) -> Result<Write, Failure> {
        Err(Failure::new("the destination places nothing"))
    }
}
