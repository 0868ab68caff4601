//! Fixtures for tests that read as scripts: a device that records its calls, and a client's messages.

mod migrator;

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::backend::{
    Backend, DmaMap, DmaUnmap, IrqAction, IrqData, MmapArea, Region, RegionMmap, SetIrqs,
};
use crate::client_fd::{ClientFd, Closing};
use crate::message::{Command, HEADER_SIZE, Header, Kind, MAX_MESSAGE};
use crate::migration::Migration;
use crate::session::{Session, SessionError};
use crate::state::SessionState;
pub(crate) use migrator::{DATA, HELD_MAX, Migrator, Step, WRITTEN};

/// The calls that the device got. Descriptors are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Read {
        region: u32,
        offset: u64,
        length: usize,
    },
    Write {
        region: u32,
        offset: u64,
        data: Vec<u8>,
    },
    Map {
        map: DmaMap,
        fd: bool,
    },
    Unmap(DmaUnmap),
    Irqs {
        index: u32,
        start: u32,
        count: u32,
        action: IrqAction,
        data: Irqs,
    },
    Reset,
    DmaDone {
        token: u64,
        result: Result<Vec<u8>, Errno>,
    },
}

/// [`IrqData`] without its descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Irqs {
    None,
    Bool(Vec<u8>),
    Eventfds(usize),
}

/// Regions: 0 is 4 KiB to read and write, 1 is 256 bytes to write with the MMAP flag and no areas,
/// 2 is 64 KiB with one mappable page, 3 is 4 KiB to read, 7 is 256 bytes of configuration space.
#[derive(Debug, Default)]
pub(crate) struct Device {
    pub(crate) calls: Vec<Call>,
    /// Whether a write makes it busy.
    pub(crate) is_slow: bool,
    pub(crate) is_busy: bool,
    /// The result of the next mapping.
    pub(crate) map_error: Option<Errno>,
    /// The calls so far, and the state of the connection, at the last commit.
    pub(crate) committed: Option<(Vec<Call>, Vec<u8>)>,
    /// The migrating side, if the device can migrate.
    pub(crate) migrator: Option<Migrator>,
}

impl Device {
    /// Takes the calls since the last time.
    pub(crate) fn take(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }
}

/// The bytes that a read of the test device returns.
pub(crate) fn pattern(offset: u64, length: usize) -> Vec<u8> {
    (offset..).take(length).map(|at| at as u8 ^ 0xa5).collect()
}

impl Backend for Device {
    fn is_busy(&self) -> bool {
        self.is_busy
    }

    fn commit(&mut self, state: &SessionState) {
        self.committed = Some((self.calls.clone(), state.encode()));
    }

    fn migration(&mut self) -> Option<&mut dyn Migration> {
        let migrator = self.migrator.as_mut();
        migrator.map(|migrator| migrator as &mut dyn Migration)
    }

    fn region(&self, index: u32) -> Option<Region> {
        let (size, readable, writable) = match index {
            0 => (0x1000, true, true),
            1 => (0x100, false, true),
            2 => (0x1_0000, true, true),
            3 => (0x1000, true, false),
            7 => (0x100, true, true),
            _ => return None,
        };
        Some(Region {
            size,
            readable,
            writable,
        })
    }

    fn region_mmap(&self, index: u32) -> Option<RegionMmap> {
        match index {
            1 => Some(RegionMmap {
                areas: Vec::new(),
                fd: None,
                offset: 0,
            }),
            2 => Some(RegionMmap {
                areas: vec![MmapArea {
                    offset: 0x1000,
                    size: 0x1000,
                }],
                fd: Some(any_fd()),
                offset: 0x2000,
            }),
            _ => None,
        }
    }

    fn irq_count(&self, index: u32) -> u32 {
        match index {
            2 => 4,
            3 => 1,
            _ => 0,
        }
    }

    fn read(&mut self, region: u32, offset: u64, data: &mut [u8]) {
        assert!(
            data.iter().all(|byte| *byte == 0),
            "the space for a read is zeroed"
        );
        data.copy_from_slice(&pattern(offset, data.len()));
        self.calls.push(Call::Read {
            region,
            offset,
            length: data.len(),
        });
    }

    fn write(&mut self, region: u32, offset: u64, data: &[u8]) {
        self.calls.push(Call::Write {
            region,
            offset,
            data: data.to_vec(),
        });
        self.is_busy = self.is_slow;
    }

    fn dma_map(&mut self, map: DmaMap, fd: Option<ClientFd>) -> Result<(), Errno> {
        self.calls.push(Call::Map {
            map,
            fd: fd.is_some(),
        });
        self.map_error.take().map_or(Ok(()), Err)
    }

    fn dma_unmap(&mut self, unmap: DmaUnmap) -> Result<(), Errno> {
        self.calls.push(Call::Unmap(unmap));
        Ok(())
    }

    fn set_irqs(&mut self, irqs: SetIrqs<'_>) -> Result<(), Errno> {
        let data = match irqs.data {
            IrqData::None => Irqs::None,
            IrqData::Bool(chosen) => Irqs::Bool(chosen.to_vec()),
            IrqData::Eventfd(fds) => Irqs::Eventfds(fds.len()),
        };
        let SetIrqs {
            index,
            start,
            count,
            action,
            ..
        } = irqs;
        self.calls.push(Call::Irqs {
            index,
            start,
            count,
            action,
            data,
        });
        Ok(())
    }

    fn reset(&mut self) {
        self.calls.push(Call::Reset);
    }

    fn dma_done(&mut self, token: u64, result: Result<&[u8], Errno>) {
        self.calls.push(Call::DmaDone {
            token,
            result: result.map(<[u8]>::to_vec),
        });
    }
}

/// Any descriptor to send.
pub(crate) fn any_fd() -> OwnedFd {
    File::open("/dev/null")
        .expect("every Linux system has it")
        .into()
}

/// A descriptor as if a client had sent it, which the test closes itself.
pub(crate) fn sent(fd: OwnedFd) -> ClientFd {
    ClientFd::new(fd, Closing::by(drop))
}

/// A message from its parts, with the right size in the header.
pub(crate) fn message(id: u16, command: u16, kind: Kind, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        id,
        command,
        payload: payload.len() as u32,
        kind,
    };
    [&header.emit()[..], payload].concat()
}

/// A command that wants a reply.
pub(crate) fn command(id: u16, command: Command, payload: &[u8]) -> Vec<u8> {
    message(
        id,
        command as u16,
        Kind::Command { no_reply: false },
        payload,
    )
}

/// A command that wants no reply.
pub(crate) fn posted(id: u16, command: Command, payload: &[u8]) -> Vec<u8> {
    message(
        id,
        command as u16,
        Kind::Command { no_reply: true },
        payload,
    )
}

/// A payload from 32-bit words.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The fixed part of a region access.
pub(crate) fn access(offset: u64, region: u32, count: u32) -> Vec<u8> {
    [&offset.to_le_bytes()[..], &words(&[region, count])].concat()
}

/// The first message of QEMU 11.
pub(crate) const QEMU_VERSION: &[u8] = b"\0\0\0\0{\"capabilities\": {\"migration\": \
    {\"max_bitmap_size\": 268435456, \"pgsize\": 4096}, \"max_msg_fds\": 16, \
    \"write_multiple\": true, \"max_data_xfer_size\": 1048576, \"max_dma_maps\": 65535, \
    \"pgsizes\": 4096}}\0";

/// A message that the session sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    pub(crate) fd: bool,
}

impl Sent {
    /// A reply without error.
    #[track_caller]
    pub(crate) fn expect(&self, id: u16, command: Command, payload: &[u8]) {
        let kind = Kind::Reply { error: None };
        let payload_length = payload.len() as u32;
        let header = Header {
            id,
            command: command as u16,
            payload: payload_length,
            kind,
        };
        assert_eq!(self.header, header);
        assert_eq!(self.payload, payload);
    }
}

/// A session, its device, and the client's side of the conversation.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    pub(crate) session: Session,
    pub(crate) device: Device,
}

impl Talk {
    /// A conversation after the version was accepted.
    pub(crate) fn greeted() -> Self {
        let mut talk = Talk::default();
        talk.send(&command(0, Command::Version, QEMU_VERSION));
        assert_eq!(talk.replies().len(), 1);
        talk
    }

    /// Feeds bytes and descriptors as from one send call of the client.
    pub(crate) fn feed(&mut self, bytes: &[u8], fds: Vec<ClientFd>) -> Result<(), SessionError> {
        let space = self.session.space();
        let (now, later) = bytes.split_at(bytes.len().min(space.len()));
        space[..now.len()].copy_from_slice(now);
        self.session
            .received(now.len(), fds, false, &mut self.device)?;
        if later.is_empty() {
            Ok(())
        } else {
            self.feed(later, Vec::new())
        }
    }

    /// Feeds bytes that do not end the session.
    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.feed(bytes, Vec::new()).expect("the session goes on");
    }

    /// Feeds a message with descriptors that does not end the session.
    #[track_caller]
    pub(crate) fn send_with(&mut self, bytes: &[u8], fds: usize) {
        let fds = (0..fds).map(|_| sent(any_fd())).collect();
        self.feed(bytes, fds).expect("the session goes on");
    }

    /// Takes all messages that the session wants to send.
    pub(crate) fn replies(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some(outgoing) = self.session.outgoing() {
            let (header, payload) = outgoing.bytes.split_first_chunk::<HEADER_SIZE>().unwrap();
            let header = Header::parse(header).unwrap();
            let length = outgoing.bytes.len();
            assert!(length <= MAX_MESSAGE && payload.len() == header.payload as usize);
            sent.push(Sent {
                header,
                payload: payload.to_vec(),
                fd: outgoing.fd.is_some(),
            });
            self.session.sent(length);
        }
        sent
    }

    /// Takes the only message that the session wants to send.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> Sent {
        let mut sent = self.replies();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    /// Expects an answer with this payload.
    #[track_caller]
    pub(crate) fn expect(&mut self, id: u16, command: Command, payload: &[u8]) {
        self.reply().expect(id, command, payload);
    }

    /// Expects an answer with this errno.
    #[track_caller]
    pub(crate) fn expect_error(&mut self, id: u16, errno: Errno) {
        let sent = self.reply();
        assert_eq!(sent.header.id, id);
        let error = Some(errno.raw_os_error() as u32);
        assert_eq!(sent.header.kind, Kind::Reply { error });
        assert!(sent.payload.is_empty() && !sent.fd);
    }

    /// Expects that the session sends nothing and that the device got no call.
    #[track_caller]
    pub(crate) fn expect_silence(&mut self) {
        assert_eq!(self.replies(), []);
        assert_eq!(self.device.take(), []);
    }

    /// Expects exactly these calls of the device.
    #[track_caller]
    pub(crate) fn expect_calls(&mut self, calls: &[Call]) {
        assert_eq!(self.device.take(), calls);
    }
}
