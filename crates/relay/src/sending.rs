//! The relay at the source: takes the pages out of QEMU's stream and writes them into the destination's memory.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{getegid, geteuid};
use tempfile::TempDir;

use crate::end::{Arrival, End, Piece, SocketEnd};
use crate::failure::Failure;
use crate::guest::{At, Mapped};
use crate::link::{Link, Region, Write};
use crate::message::{BLOCKS_MAX, Hello, HelloBlock, Message, Ready, ReadyBlock, VERSION};
use crate::pump::{Passed, Pump, Role, last_words, wait};
use crate::queue::{Queue, Run};
use crate::replies::{Replies, ping};
use crate::stream::{Block, Mark, Sink, Stream};
use crate::stream_file::{Mounter, StreamFile};

/// What the relay is to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sending {
    /// Where the other relay listens.
    pub to: SocketAddr,
    /// The process of the source's QEMU.
    pub process: u32,
    /// The blocks of shared memory.
    pub blocks: Vec<SentBlock>,
    /// The program that mounts a file for QEMU to write its stream into.
    pub mounter: Mounter,
}

/// A block, and where it is mapped in both QEMUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentBlock {
    /// Its name, length and pages.
    pub block: Block,
    /// Its address in the source's QEMU.
    pub here: u64,
    /// Its address in the destination's QEMU.
    pub there: u64,
}

/// A relay that is connected to the destination's, with all memory registered.
pub struct Sender {
    link: Link,
    blocks: Vec<Block>,
    targets: Vec<(Region, ReadyBlock)>,
    listener: UnixListener,
    /// Migration URIs of the source's QEMU and the destination's.
    uris: [String; 2],
    file: io::Result<StreamFile>,
    // Fields are dropped in this order: the connection before the memory.
    _memory: Vec<Mapped>,
    _folder: TempDir,
}

impl Sender {
    /// Connects, and has the other relay check its side. Nothing is changed.
    ///
    /// # Errors
    /// When something is wrong on either side.
    pub fn new(sending: &Sending) -> Result<Self, Failure> {
        if sending.blocks.is_empty() || sending.blocks.len() > BLOCKS_MAX {
            return Err(Failure::new(format!(
                "the VM has {} blocks of shared memory, not 1 to {BLOCKS_MAX}",
                sending.blocks.len()
            )));
        }
        let memory = sending.blocks.iter().map(|it| {
            Mapped::new(At {
                process: sending.process,
                address: it.here,
                bytes: it.block.bytes,
            })
        });
        let memory = memory.collect::<Result<Vec<_>, _>>()?;
        let mut link = Link::connect(sending.to)?;
        // The other relay registers its memory meanwhile.
        link.send(&Message::Hello(hello(sending)))?;
        let regions = memory.iter().map(|it| link.register(it, false));
        let regions = regions.collect::<Result<Vec<_>, _>>()?;
        let ready = answer(&mut link, sending.blocks.len())?;
        let blocks = sending.blocks.iter().map(|it| it.block.clone()).collect();
        let (folder, listener, uri) = socket()?;
        Ok(Self {
            link,
            blocks,
            targets: regions.into_iter().zip(ready.blocks).collect(),
            listener,
            uris: [uri, ready.uri],
            file: stream_file(sending),
            _memory: memory,
            _folder: folder,
        })
    }

    /// The migration URIs of the source's QEMU and of the destination's.
    #[must_use]
    pub fn uris(&self) -> &[String; 2] {
        &self.uris
    }

    /// The file that QEMU may write its stream into instead, with `mapped-ram` and multifd, which costs less.
    ///
    /// # Errors
    /// When this host cannot provide such a file.
    pub fn file(&self) -> Result<PathBuf, Failure> {
        let file = self.file.as_ref().map_err(|error| {
            Failure::new(format!("cannot mount a file for QEMU's stream: {error}"))
        })?;
        file.path()
            .ok_or_else(|| Failure::new("the file for QEMU's stream is not open"))
    }

    /// Waits for QEMU, and relays until both sides have ended.
    ///
    /// # Errors
    /// When either side fails. QEMU's socket or file is closed then, so that its migration fails and the VM continues.
    pub fn run(self) -> Result<Passed, Failure> {
        let Self {
            mut link,
            blocks,
            targets,
            listener,
            file,
            ..
        } = self;
        let link = &mut link;
        let inlet = Inlet::wait(listener, file.ok(), link);
        let source = |stream| Source {
            stream,
            targets,
            asked: None,
        };
        let passed = match inlet.inspect_err(|why| drop(last_words(link, why)))? {
            Inlet::Socket(qemu) => Pump::new(link, qemu, source(Stream::new(blocks))).run(),
            Inlet::File(qemu) => Pump::new(link, qemu, source(Stream::of_file(blocks))).run(),
        };
        link.disconnect();
        passed
    }
}

/// Mounts a file that QEMU can write.
fn stream_file(sending: &Sending) -> io::Result<StreamFile> {
    let group = fs::metadata(format!("/proc/{}", sending.process))?.gid();
    // In a user namespace of ours, the kernel has no number for another group.
    if !geteuid().is_root() && group != getegid().as_raw() {
        return Err(io::Error::other(format!(
            "QEMU is of group {group}; run this in that group"
        )));
    }
    StreamFile::new(&sending.mounter)
}

/// What QEMU has opened: the socket or the file.
enum Inlet {
    Socket(SocketEnd),
    File(StreamFile),
}

impl Inlet {
    /// Waits for QEMU. The way that it did not use is closed, since a second stream would not be read.
    fn wait(
        listener: UnixListener,
        mut file: Option<StreamFile>,
        link: &mut Link,
    ) -> Result<Self, Failure> {
        let cannot = |error| Failure::new(format!("cannot wait for QEMU: {error}"));
        loop {
            if let Ok((qemu, _)) = listener.accept() {
                return SocketEnd::new(qemu).map(Self::Socket).map_err(cannot);
            }
            match file.as_mut().map(End::read) {
                Some(Ok(Arrival::Piece)) => {
                    let file = file.take();
                    return file.map(Self::File).ok_or_else(|| Failure::new("no file"));
                }
                Some(Err(error)) => return Err(cannot(error)),
                _ => {}
            }
            link.poll()?;
            if link.front().is_some() || link.has_ended() {
                return Err(Failure::new(
                    "the destination's relay ended before QEMU came",
                ));
            }
            link.arm()?;
            if !link.poll()? {
                let mut inlets = vec![PollFd::new(&listener, PollFlags::IN)];
                inlets.extend(file.as_ref().map(|file| PollFd::new(file, PollFlags::IN)));
                heed(link, &inlets, None)?;
            }
        }
    }
}

fn hello(sending: &Sending) -> Hello {
    let blocks = sending.blocks.iter().map(|it| HelloBlock {
        address: it.there,
        bytes: it.block.bytes,
    });
    Hello {
        version: VERSION,
        blocks: blocks.collect(),
    }
}

/// Waits for the other relay's answer to the request.
fn answer(link: &mut Link, blocks: usize) -> Result<Ready, Failure> {
    // No deadline: registering makes all of the memory's pages present. The program that started this one ends it if
    // that takes too long.
    let message = next(link, None)?.ok_or_else(|| Failure::new("the other relay has gone"))?;
    match message {
        Message::Ready(ready) if ready.blocks.len() == blocks => Ok(ready),
        Message::Failed(why) => Err(Failure::new(format!("at the destination: {why}"))),
        _ => Err(Failure::new(
            "the other relay says what is not known; use the same release everywhere",
        )),
    }
}

/// Waits for the next message; `None` if the other relay has ended the connection.
pub(crate) fn next(link: &mut Link, deadline: Option<Instant>) -> Result<Option<Message>, Failure> {
    loop {
        link.poll()?;
        if let Some(bytes) = link.front() {
            link.release()?;
            let message = Message::read(&bytes);
            return message.map(Some).ok_or_else(|| {
                Failure::new("the other relay says what is not known; use the same release")
            });
        }
        if link.has_ended() {
            return Ok(None);
        }
        rest(link, deadline)?;
    }
}

/// Waits until something happens on the connection; an error after the deadline.
pub(crate) fn rest(link: &mut Link, deadline: Option<Instant>) -> Result<(), Failure> {
    link.arm()?;
    if link.poll()? {
        return Ok(());
    }
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    if left.is_some_and(|left| left.is_zero()) {
        return Err(silent());
    }
    heed(link, &[], left)
}

/// The failure of a relay that waited too long for the other one.
pub(crate) fn silent() -> Failure {
    Failure::new("the other relay has been silent for too long")
}

fn heed(link: &mut Link, also: &[PollFd<'_>], limit: Option<Duration>) -> Result<(), Failure> {
    let [completions, events] = wait(link, also, limit)?;
    if completions {
        link.notified();
    }
    if events {
        link.event();
    }
    Ok(())
}

/// A folder for a socket, which other users may not enter.
pub(crate) fn folder() -> Result<TempDir, Failure> {
    let parent = std::env::var_os("XDG_RUNTIME_DIR").map(Into::into);
    let parent: std::path::PathBuf = parent.unwrap_or_else(std::env::temp_dir);
    let made = tempfile::Builder::new()
        .prefix("vrdma-relay-")
        .tempdir_in(&parent);
    made.map_err(|error| {
        Failure::new(format!(
            "cannot make a folder in {}: {error}",
            parent.display()
        ))
    })
}

fn socket() -> Result<(TempDir, UnixListener, String), Failure> {
    let folder = folder()?;
    let path = folder.path().join("source.sock");
    let cannot = |error| Failure::new(format!("cannot listen at {}: {error}", path.display()));
    let listener = UnixListener::bind(&path).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let uri = format!("unix:{}", path.display());
    Ok((folder, listener, uri))
}

/// The role of the source: takes the pages out of the stream.
struct Source {
    stream: Stream,
    targets: Vec<(Region, ReadyBlock)>,
    /// Set while the destination's QEMU is asked whether it has read all.
    asked: Option<Replies>,
}

impl Role for Source {
    const QEMU: &'static str = "the source's QEMU";

    fn outward(&mut self, piece: Piece<'_>, queue: &mut Queue) -> Result<usize, Failure> {
        if let Some(at) = piece.at {
            self.stream.write(at, piece.bytes, queue)?;
            return Ok(piece.bytes.len());
        }
        let fed = self.stream.feed(piece.bytes, queue)?;
        if fed.mark == Some(Mark::Advised) {
            queue.forward(&ping());
            self.asked = Some(Replies::default());
        }
        Ok(fed.taken)
    }

    fn is_waiting(&self) -> bool {
        self.asked.is_some()
    }

    fn inward(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let Some(replies) = &mut self.asked else {
            return bytes;
        };
        let (passed, is_answered) = replies.feed(&bytes);
        if is_answered {
            self.asked = None;
        }
        passed
    }

    fn ended(&mut self) -> Result<(), Failure> {
        match self.stream.is_through() {
            true => Ok(()),
            false => Err(Failure::new(
                "the destination's QEMU has hung up; see its log",
            )),
        }
    }

    fn place(&self, run: Run) -> Result<Write, Failure> {
        let target = self.targets.get(run.block);
        let (here, there) = target.ok_or_else(|| Failure::new("a page of no block"))?;
        let bytes = u32::try_from(run.bytes);
        Ok(Write {
            from: here.address + run.offset,
            local_key: here.local_key,
            to: there.address.wrapping_add(run.offset),
            remote_key: there.key,
            bytes: bytes.map_err(|_| Failure::new("a run that is too long"))?,
        })
    }
}
