use std::fs;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tempfile::TempDir;

use super::*;
use crate::client_fd::Closing;
use crate::message::{Command as C, HEADER_SIZE, Header, Kind, MAX_DATA, MAX_MESSAGE_FDS};
use crate::script::{Call, Device, QEMU_VERSION, access, any_fd, command, message, pattern, words};
use crate::session::{OUTPUT_LIMIT, SessionError};

mod kept;
mod kept_limits;
mod listening;

/// A client's socket, and the connection at its other end.
struct Pair {
    client: UnixStream,
    server: Connection,
    device: Device,
}

impl Pair {
    fn new() -> Self {
        let (client, server) = UnixStream::pair().unwrap();
        Pair {
            client,
            server: Connection::new(server.into(), Closing::by(drop)),
            device: Device::default(),
        }
    }

    /// A pair that reports its descriptors when they are closed.
    fn told() -> (Self, Receiver<OwnedFd>) {
        let (tells, told) = channel();
        let (client, server) = UnixStream::pair().unwrap();
        let closing = Closing::by(move |fd| tells.send(fd).unwrap());
        let pair = Pair {
            client,
            server: Connection::new(server.into(), closing),
            device: Device::default(),
        };
        (pair, told)
    }

    fn greeted() -> Self {
        let mut pair = Self::new();
        pair.send(&command(0, C::Version, QEMU_VERSION));
        pair.serve();
        pair.reply();
        pair
    }

    fn send(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).unwrap();
    }

    fn send_with(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        let sent = sendmsg(
            &self.client,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::empty(),
        );
        assert_eq!(sent, Ok(bytes.len()));
    }

    /// Serves until there is nothing to read.
    fn serve(&mut self) {
        while self.server.on_readable(&mut self.device).unwrap() == Progress::Worked {}
    }

    fn reply(&mut self) -> (Header, Vec<u8>) {
        let mut header = [0; HEADER_SIZE];
        self.client.read_exact(&mut header).unwrap();
        let header = Header::parse(&header).unwrap();
        let mut payload = vec![0; header.payload as usize];
        self.client.read_exact(&mut payload).unwrap();
        (header, payload)
    }

    #[track_caller]
    fn expect(&mut self, id: u16, command: C, payload: &[u8]) {
        let kind = Kind::Reply { error: None };
        let payload_length = payload.len() as u32;
        let header = Header {
            id,
            command: command as u16,
            payload: payload_length,
            kind,
        };
        assert_eq!(self.reply(), (header, payload.to_vec()));
    }

    fn expect_closed(&mut self) -> Closed {
        self.server.on_readable(&mut self.device).unwrap_err()
    }
}

fn map(id: u16, flags: u32) -> Vec<u8> {
    let range = [0, u64::from(id) << 12, 0x1000]
        .map(u64::to_le_bytes)
        .concat();
    command(id, C::DmaMap, &[words(&[32, flags]), range].concat())
}

#[test]
fn a_client_reads_and_writes_registers() {
    let mut pair = Pair::greeted();
    assert_eq!(
        pair.server.on_readable(&mut pair.device),
        Ok(Progress::Idle)
    );
    pair.send(&command(1, C::RegionRead, &access(16, 0, 8)));
    assert_eq!(
        pair.server.on_readable(&mut pair.device),
        Ok(Progress::Worked)
    );
    pair.expect(
        1,
        C::RegionRead,
        &[access(16, 0, 8), pattern(16, 8)].concat(),
    );
    pair.send(&command(
        2,
        C::RegionWrite,
        &[access(0, 0, 2), vec![1, 2]].concat(),
    ));
    pair.serve();
    pair.expect(2, C::RegionWrite, &access(0, 0, 2));
    assert!(!pair.server.wants_write());
}

#[test]
fn descriptors_arrive_with_the_message_they_were_sent_with() {
    let (mut pair, fd) = (Pair::greeted(), any_fd());
    pair.send(&map(1, 3));
    pair.send_with(&map(2, 3), &[fd.as_fd()]);
    pair.send(&map(3, 3));
    pair.send_with(&map(4, 3), &[fd.as_fd()]);
    pair.serve();
    let seen = |call: &Call| matches!(call, Call::Map { fd: true, .. });
    let files: Vec<bool> = pair.device.take().iter().map(seen).collect();
    assert_eq!(files, [false, true, false, true]);
    for id in 1..=4 {
        pair.expect(id, C::DmaMap, &[]);
    }
}

#[test]
fn as_many_descriptors_as_announced_arrive_and_more_are_refused() {
    let (mut pair, fd) = (Pair::greeted(), any_fd());
    let set = |count| command(1, C::DeviceSetIrqs, &words(&[20, 0b100_100, 2, 0, count]));
    pair.send_with(&set(4), &[fd.as_fd(); 4]);
    pair.serve();
    pair.expect(1, C::DeviceSetIrqs, &[]);
    pair.send_with(&set(4), &[fd.as_fd(); MAX_MESSAGE_FDS + 1]);
    pair.serve();
    let error = Errno::MFILE.raw_os_error() as u32;
    assert_eq!(pair.reply().0.kind, Kind::Reply { error: Some(error) });
}

/// This holds for all descriptors that a client sends, and for its socket: their `close` may take long.
#[test]
fn who_serves_a_client_closes_nothing_of_it() {
    let (mut pair, told) = Pair::told();
    let fd = any_fd();
    let mut sent = 0;
    let mut send = |pair: &mut Pair, bytes: &[u8], count: usize| {
        pair.send_with(bytes, &vec![fd.as_fd(); count]);
        pair.serve();
        sent += count;
    };
    send(&mut pair, &command(0, C::Version, QEMU_VERSION), 1);
    send(&mut pair, &command(1, C::DeviceReset, &[]), 1);
    send(&mut pair, &map(2, 3), 2);
    let set = command(3, C::DeviceSetIrqs, &words(&[20, 0b100_100, 2, 0, 4]));
    send(&mut pair, &set, 3);
    send(&mut pair, &set, MAX_MESSAGE_FDS + 1);
    send(&mut pair, &set, 253);
    send(&mut pair, &set[..5], 7);
    assert_eq!(
        told.try_iter().count(),
        sent - 7,
        "the last ones wait for the rest"
    );
    drop(pair.server);
    assert_eq!(told.try_iter().count(), 7 + 1, "and the socket");
}

#[test]
fn the_memory_of_a_region_is_handed_over() {
    let mut pair = Pair::greeted();
    pair.send(&command(
        1,
        C::DeviceGetRegionInfo,
        &words(&[64, 0, 2, 0, 0, 0, 0, 0]),
    ));
    pair.serve();
    let mut bytes = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(
        &pair.client,
        &mut [std::io::IoSliceMut::new(&mut bytes)],
        &mut control,
        rustix::net::RecvFlags::empty(),
    );
    assert_eq!(received.unwrap().bytes, HEADER_SIZE + 64);
    assert_eq!(control.drain().count(), 1);
}

#[test]
fn a_client_that_hangs_up_is_noticed() {
    let mut pair = Pair::greeted();
    pair.client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(pair.expect_closed(), Closed::HungUp);

    let mut pair = Pair::greeted();
    pair.send(&command(1, C::DeviceReset, &[])[..5]);
    pair.serve();
    pair.client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(pair.expect_closed(), Closed::Torn);
    assert_eq!(
        Closed::Torn.to_string(),
        "the client hung up in the middle of a message"
    );
}

#[test]
fn a_client_that_breaks_the_protocol_is_disconnected() {
    let mut pair = Pair::greeted();
    pair.server.dma_read(7, 0, 4).unwrap();
    pair.send(&[0; HEADER_SIZE]);
    let closed = pair.expect_closed();
    assert_eq!(
        closed.to_string(),
        "the client was disconnected: a message claims a size of 0 bytes, less than its own header"
    );
    let lost = Call::DmaDone {
        token: 7,
        result: Err(Errno::CONNRESET),
    };
    assert_eq!(pair.device.take(), [lost]);
}

#[test]
fn guest_memory_is_read_over_the_socket() {
    let mut pair = Pair::greeted();
    pair.server.dma_read(7, 0x1000, 2).unwrap();
    assert!(pair.server.wants_write());
    pair.server.on_writable(&mut pair.device).unwrap();
    let (header, payload) = pair.reply();
    assert_eq!(header.command, C::DmaRead as u16);
    let kind = Kind::Reply { error: None };
    pair.send(&message(
        header.id,
        header.command,
        kind,
        &[&payload[..], &[8, 9]].concat(),
    ));
    pair.serve();
    assert_eq!(
        pair.device.take(),
        [Call::DmaDone {
            token: 7,
            result: Ok(vec![8, 9])
        }]
    );
}

#[test]
fn answers_that_do_not_fit_the_socket_follow_later() {
    let mut pair = Pair::greeted();
    rustix::net::sockopt::set_socket_send_buffer_size(&pair.server, 8192).unwrap();
    let read = command(1, C::RegionRead, &access(0, 2, MAX_DATA));
    for _ in 0..3 {
        pair.send(&read);
        pair.serve();
    }
    assert!(pair.server.wants_write());
    pair.client.set_nonblocking(true).unwrap();
    let mut stream = Vec::new();
    let one = HEADER_SIZE * 2 + MAX_DATA as usize;
    while stream.len() < 3 * one {
        let mut bytes = [0; 4096];
        match pair.client.read(&mut bytes) {
            Ok(length) => stream.extend_from_slice(&bytes[..length]),
            Err(_) => pair.server.on_writable(&mut pair.device).unwrap(),
        }
    }
    let expected = [&access(0, 2, MAX_DATA)[..], &pattern(0, MAX_DATA as usize)].concat();
    for reply in stream.chunks(one) {
        assert_eq!(reply[HEADER_SIZE..], expected);
    }
    assert!(!pair.server.wants_write());
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    let mut pair = Pair::greeted();
    let read = command(1, C::RegionRead, &access(0, 2, MAX_DATA));
    let most = (OUTPUT_LIMIT + (1 << 20)) / MAX_DATA as usize;
    let closed = (0..most).find_map(|_| {
        pair.send(&read);
        pair.server.on_readable(&mut pair.device).err()
    });
    assert_eq!(closed, Some(Closed::Protocol(SessionError::OutputLimit)));
}
