//! A client that keeps no rule, driven by a seed. It sends any bytes as packets, valid requests with some bytes
//! changed, descriptors of all kinds, and any words in rings and doorbells.
//!
//! The villain is a process of its own, so writes to memory that it has registered go to its own memory. That memory
//! lies in an arena, or where nothing is ever mapped: other addresses would end the villain, and not the daemon.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use fastrand::Rng;
use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, connect, socket as open_socket,
};
use vrdma_provider::area::Area;
use vrdma_provider::layout::SendHeader;
use vrdma_provider::message::{
    Code, CreateQp, Header, ModifyQp, PACKET_MAX, QpAttributes, QpCapacity, RegMr, qp_type, split,
};
use vrdma_provider::socket;
use zerocopy::IntoBytes;

use crate::child;
use crate::client::hello;
use crate::memory::own_memory;

const ARENA_BYTES: usize = 1 << 16;

/// Deeds before the villain leaves.
const DEEDS: u32 = 10_000;

/// Addresses below this are never mapped (`vm.mmap_min_addr`).
const LOW_BYTES: u64 = 4096;

/// Most rings that it keeps, and handles that it may use again.
const AREAS_MAX: usize = 16;
const HANDLES_MAX: usize = 256;

/// Bytes of an area that it writes to: the headers of its queues and their first slots.
const SCRIBBLED_BYTES: usize = 16 << 10;

/// Counts of what it has done.
#[derive(Default)]
struct Deeds {
    sent: u64,
    granted: u64,
}

struct Villain {
    random: Rng,
    socket: PathBuf,
    connection: Option<OwnedFd>,
    arena: Vec<u64>,
    handles: Vec<u32>,
    areas: Vec<Area>,
    deeds: Deeds,
}

/// The child's role.
pub(crate) fn torments(socket: &Path) {
    let seed = child::listen().unwrap();
    let mut villain = Villain {
        random: Rng::with_seed(seed),
        socket: socket.to_owned(),
        connection: None,
        arena: vec![0; ARENA_BYTES / 8],
        handles: Vec::new(),
        areas: Vec::new(),
        deeds: Deeds::default(),
    };
    villain.arrive();
    (0..DEEDS).for_each(|_| villain.act());
    child::say(&[villain.deeds.sent, villain.deeds.granted]);
}

impl Villain {
    fn act(&mut self) {
        match self.random.u8(..32) {
            // A client that breaks the protocol is hung up on.
            _ if self.connection.is_none() => self.arrive(),
            0 => self.arrive(),
            1 => self.connection = None,
            2..6 => self.send_anything(),
            6..20 => self.ask(),
            20 => (0..50).for_each(|_| self.ask_without_listening()),
            _ => self.scribble(),
        }
    }

    /// Connects as a client should, on its own adapter or its neighbour's.
    fn arrive(&mut self) {
        let fd = open_socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        let address = SocketAddrUnix::new(&self.socket).unwrap();
        if connect(&fd, &address).is_err() {
            return;
        }
        self.connection = Some(fd);
        self.handles.clear();
        self.areas.clear();
        let hello = hello([0, 2, 2, 2][self.random.usize(..4)]);
        self.send(Code::Hello as u16, hello.as_bytes(), &[own_memory()]);
        self.hear(RecvFlags::empty());
    }

    fn send(&mut self, code: u16, body: &[u8], fds: &[OwnedFd]) {
        let Some(connection) = &self.connection else {
            return;
        };
        let header = Header {
            code,
            number: self.random.u16(..),
            errno: 0,
        };
        let packet = [header.as_bytes(), body].concat();
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let sent = socket::send(connection.as_fd(), &packet, &fds, SendFlags::DONTWAIT);
        self.deeds.sent += u64::from(sent.is_ok());
    }

    /// Receives an answer, with its descriptors.
    fn hear(&mut self, flags: RecvFlags) {
        let Some(connection) = &self.connection else {
            return;
        };
        let answer = match socket::receive(connection.as_fd(), flags) {
            Ok(Some(answer)) => answer,
            Err(rustix::io::Errno::AGAIN) => return,
            Ok(None) | Err(_) => {
                self.connection = None;
                return;
            }
        };
        let Some((header, body)) = split(answer.bytes()) else {
            return;
        };
        if header.errno != 0 {
            return;
        }
        self.deeds.granted += 1;
        let handle = body.first_chunk().map(|handle| u32::from_ne_bytes(*handle));
        if let Some(handle) = handle
            && self.handles.len() < HANDLES_MAX
        {
            self.handles.push(handle);
        }
        for fd in &answer.fds {
            let length = fstat(fd).map_or(0, |status| status.st_size as usize);
            if let Ok(area) = Area::map(fd.as_fd(), length)
                && self.areas.len() < AREAS_MAX
            {
                self.areas.push(area);
            }
        }
    }

    /// Sends a packet that is no valid request.
    fn send_anything(&mut self) {
        let length = self.random.usize(..PACKET_MAX + 100);
        let mut body = vec![0; length];
        body.fill_with(|| self.random.u8(..));
        let code = match self.random.u8(..4) {
            0 => self.random.u16(..),
            1 => self.random.u16(128..160),
            _ => self.random.u16(..40),
        };
        if code == Code::RegMr as u16 || code == Code::ReregMr as u16 {
            return;
        }
        let fds = self.descriptors();
        self.send(code, &body, &fds);
        self.hear(RecvFlags::DONTWAIT);
    }

    fn ask(&mut self) {
        self.ask_without_listening();
        self.hear(RecvFlags::DONTWAIT);
    }

    /// Sends a valid request, perhaps with some bytes changed.
    fn ask_without_listening(&mut self) {
        let (code, mut body, damages) = match self.random.u8(..8) {
            0 => (Code::CreateQp, self.queue_pair(), true),
            1 => (Code::ModifyQp, self.modification(), true),
            2 | 3 => (Code::RegMr, self.region(), false),
            _ => {
                let numbers = [
                    Code::AllocPd as u32..=Code::DeallocPd as u32,
                    Code::DeregMr as u32..=Code::DetachMcast as u32,
                    Code::Reach as u32..=Code::FindAdapter as u32,
                ];
                let among = numbers[self.random.usize(..numbers.len())].clone();
                let Some(code) = Code::from_number(self.random.u32(among)) else {
                    return;
                };
                (code, self.words_of(code), true)
            }
        };
        if damages && self.random.bool() && !body.is_empty() {
            let at = self.random.usize(..body.len());
            body[at] = self.random.u8(..);
        }
        let fds = match self.random.u8(..4) {
            0 => self.descriptors(),
            _ => Vec::new(),
        };
        self.send(code as u16, &body, &fds);
    }

    /// Returns a body of handles and small numbers, as long as many bodies are.
    fn words_of(&mut self, code: Code) -> Vec<u8> {
        let words = match code {
            Code::CreateCq | Code::QueryPort => 5,
            Code::AllocPd | Code::CreateChannel => 0,
            _ => self.random.usize(..12),
        };
        let words: Vec<u32> = (0..words).map(|_| self.handle()).collect();
        words.as_bytes().to_vec()
    }

    fn handle(&mut self) -> u32 {
        let known = self.random.choice(&self.handles).copied();
        match self.random.u8(..4) {
            0 => self.random.u32(..8),
            1 => self.random.u32(..),
            _ => known.unwrap_or(1),
        }
    }

    fn queue_pair(&mut self) -> Vec<u8> {
        let request = CreateQp {
            pd: self.handle(),
            qp_type: [qp_type::RC, qp_type::UD][self.random.usize(..2)],
            send_cq: self.handle(),
            recv_cq: self.handle(),
            capacity: QpCapacity {
                max_send_wr: self.random.u32(1..64),
                max_recv_wr: self.random.u32(1..64),
                max_send_sge: 2,
                max_recv_sge: 2,
                max_inline: 64,
            },
            ..CreateQp::default()
        };
        request.as_bytes().to_vec()
    }

    fn modification(&mut self) -> Vec<u8> {
        let request = ModifyQp {
            qp: self.handle(),
            mask: self.random.u32(..1 << 21),
            attributes: QpAttributes {
                state: self.random.u32(..8),
                port: 1,
                access: 15,
                path_mtu: self.random.u32(..6),
                dest_qp_num: self.handle(),
                ..QpAttributes::default()
            },
        };
        request.as_bytes().to_vec()
    }

    /// Describes a region in the arena, or where nothing is mapped.
    fn region(&mut self) -> Vec<u8> {
        let arena = self.arena.as_ptr() as u64;
        let offset = self.random.u64(..ARENA_BYTES as u64);
        let (address, room) = match self.random.u8(..4) {
            0 => (offset % LOW_BYTES, LOW_BYTES - offset % LOW_BYTES),
            1 => (self.random.u64(1 << 63..), u64::MAX),
            _ => (arena + offset, ARENA_BYTES as u64 - offset),
        };
        let request = RegMr {
            address,
            length: self.random.u64(..).min(room),
            iova: self.random.u64(..),
            pd: self.handle(),
            access: self.random.u32(..16),
            ..RegMr::default()
        };
        request.as_bytes().to_vec()
    }

    fn descriptors(&mut self) -> Vec<OwnedFd> {
        let count = self.random.usize(..5);
        (0..count).filter_map(|_| self.descriptor()).collect()
    }

    fn descriptor(&mut self) -> Option<OwnedFd> {
        let opened = |path: &str| File::open(path).ok().map(OwnedFd::from);
        match self.random.u8(..6) {
            0 => {
                let fd = memfd_create("villain", MemfdFlags::CLOEXEC).ok()?;
                ftruncate(&fd, self.random.u64(..1 << 20)).ok()?;
                Some(fd)
            }
            1 => opened("/dev/null"),
            2 => opened("/proc/self/mem"),
            3 => opened("/"),
            4 => open_socket(AddressFamily::UNIX, SocketType::STREAM, None).ok(),
            _ => rustix::pipe::pipe().ok().map(|(read, _)| read),
        }
    }

    /// Writes any word or slot of any of its rings; doorbell pages are among them.
    fn scribble(&mut self) {
        let Some(area) = self.random.choice(&self.areas) else {
            return;
        };
        let words = area.length().min(SCRIBBLED_BYTES) / 8;
        let at = self.random.usize(..words) * 8;
        match self.random.u8(..4) {
            0 => area.u64(at).store(self.random.u64(..), Relaxed),
            1 => area.u64(at).store(self.random.u64(..8), Relaxed),
            2 => area.u64(at & !63).store(self.random.u64(..4), Relaxed),
            _ => {
                let slot = SendHeader {
                    opcode: self.random.u32(..12),
                    flags: self.random.u32(..),
                    buffers: self.random.u32(..4),
                    remote_addr: self.arena.as_ptr() as u64,
                    ..SendHeader::default()
                };
                if at + size_of::<SendHeader>() <= area.length() {
                    area.put(at, &slot);
                }
            }
        }
        self.deeds.sent += 1;
    }
}
