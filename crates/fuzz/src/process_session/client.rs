//! A program's end of the process socket: its correct use, and its misuse.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{RecvFlags, SendFlags};
use vrdma_process::SessionId;
use vrdma_provider::VERSION;
use vrdma_provider::area::Area;
use vrdma_provider::client::QueueMemory;
use vrdma_provider::doorbell::PAGE_BYTES;
use vrdma_provider::layout::AddressVector;
use vrdma_provider::message::{
    AllocPd, Call, Code, CqReply, CreateCq, CreateQp, FileRange, Header, Hello, ModifyQp,
    NO_CHANNEL, Name, PACKET_MAX, QpAttributes, QpCapacity, QpReply, RegMr, ReregMr, parse,
    qp_type, split,
};
use vrdma_provider::socket;
use vrdma_verbs::Time;
use zerocopy::IntoBytes;

use super::arena::{ARENA_BYTES, arena, descriptor};
use super::host::World;
use super::parts::Parts;
use crate::input::Input;

const NONCE: u64 = 0x6e6f_6e63_652e_2e2e;
static NONCE_PLACE: u64 = NONCE;

/// Address below which nothing is ever mapped (`vm.mmap_min_addr`).
const LOW_BYTES: u64 = 4096;
/// Address from which on everything belongs to the kernel.
const HIGH: u64 = 1 << 63;

/// Most handles that the script may use again.
const KNOWN_MAX: usize = 256;

/// A state, and the mask of attributes that it needs.
#[derive(Clone, Copy)]
struct Step {
    state: u32,
    mask: u32,
}

/// `INIT`, `RTR`, `RTS` of a connection.
const STEPS: [Step; 3] = [
    Step {
        state: 1,
        mask: 1 | 8 | 16 | 32,
    },
    Step {
        state: 2,
        mask: 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20,
    },
    Step {
        state: 3,
        mask: 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16,
    },
];

pub(super) struct Client {
    number: u8,
    socket: OwnedFd,
    id: SessionId,
    open: bool,
    known: Vec<u32>,
    parts: Option<Parts>,
}

impl Client {
    pub(super) fn open(world: &mut World, number: u8) -> Option<Self> {
        let (socket, id) = world.connect()?;
        let mut client = Self {
            number,
            socket,
            id,
            open: true,
            known: Vec::new(),
            parts: None,
        };
        client.parts = client.furnish(world);
        Some(client)
    }

    fn furnish(&mut self, world: &mut World) -> Option<Parts> {
        let hello = Hello {
            version: VERSION,
            flags: 0,
            adapter: Name::new(&format!("c{}", self.number))?,
            nonce_address: &raw const NONCE_PLACE as u64,
            nonce: NONCE,
        };
        let memory = File::options()
            .read(true)
            .write(true)
            .open("/proc/self/mem");
        let (_, fds) = self.call(world, &hello, &[memory.ok()?.into()])?;
        let doorbells = Area::map(fds.first()?.as_fd(), PAGE_BYTES).ok()?;
        let (pd, _) = self.call(world, &AllocPd {}, &[])?;
        let cq = CreateCq {
            cookie: 7,
            entries: 8,
            channel: NO_CHANNEL,
        };
        let (cq, fds): (CqReply, _) = self.call(world, &cq, &[])?;
        let entries = QueueMemory::map(fds.first()?.as_fd(), cq.ring.header, cq.bytes).ok()?;
        let (qp, queues) = self.queue_pair(world, pd.pd, cq.cq)?;
        let region = RegMr {
            address: arena(),
            length: ARENA_BYTES as u64,
            iova: arena(),
            pd: pd.pd,
            access: 15,
            ..RegMr::default()
        };
        let (region, _) = self.call(world, &region, &[])?;
        Some(Parts {
            doorbells,
            qp,
            queues,
            cq: entries.place(cq.ring).ok()?,
            entries: entries.area(),
            region,
            peer: None,
            posted: [0; 2],
        })
    }

    /// Makes a queue pair and returns it with the memory of its queues.
    fn queue_pair(&mut self, world: &mut World, pd: u32, cq: u32) -> Option<(QpReply, Arc<Area>)> {
        let qp = CreateQp {
            pd,
            qp_type: qp_type::RC,
            send_cq: cq,
            recv_cq: cq,
            capacity: QpCapacity {
                max_send_wr: 4,
                max_recv_wr: 4,
                max_send_sge: 2,
                max_recv_sge: 2,
                max_inline: 64,
            },
            ..CreateQp::default()
        };
        let (mut qp, fds): (QpReply, _) = self.call(world, &qp, &[])?;
        let queues = QueueMemory::map(fds.first()?.as_fd(), qp.send.header, qp.bytes).ok()?;
        qp.send = queues.place(qp.send).ok()?;
        qp.recv = queues.place(qp.recv).ok()?;
        qp.bytes = queues.area().length() as u32;
        Some((qp, queues.area()))
    }

    /// Returns the reply to a request, if it was granted.
    fn call<T: Call>(
        &mut self,
        world: &mut World,
        request: &T,
        fds: &[OwnedFd],
    ) -> Option<(T::Reply, Vec<OwnedFd>)> {
        let (header, body, fds) = self.ask(world, T::CODE, request.as_bytes(), fds)?;
        (header.errno == 0).then_some((parse(&body)?, fds))
    }

    /// Sends a packet and takes the answer.
    fn ask(
        &mut self,
        world: &mut World,
        code: u32,
        body: &[u8],
        fds: &[OwnedFd],
    ) -> Option<(Header, Vec<u8>, Vec<OwnedFd>)> {
        if !self.open {
            return None;
        }
        let packet = [
            Header {
                code: code as u16,
                number: 0,
                errno: 0,
            }
            .as_bytes(),
            body,
        ]
        .concat();
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        socket::send(self.socket.as_fd(), &packet, &fds, SendFlags::DONTWAIT).ok()?;
        self.open = world.serve(self.id);
        let answer = socket::receive(self.socket.as_fd(), RecvFlags::DONTWAIT);
        let answer = answer.ok().flatten()?;
        let (header, body) = split(answer.bytes()).expect("answers have headers");
        let handle = body.first_chunk().filter(|_| header.errno == 0);
        if self.known.len() < KNOWN_MAX {
            self.known
                .extend(handle.map(|handle| u32::from_ne_bytes(*handle)));
        }
        let body = body.to_vec();
        Some((header, body, answer.fds))
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Notes that another process serves the client by another session, or that none does.
    pub(super) fn follow(&mut self, id: Option<SessionId>) {
        self.open = id.is_some();
        if let Some(id) = id {
            self.id = id;
        }
    }

    pub(super) fn close(self, world: &mut World) {
        if self.open {
            world.close(self.id);
        }
    }

    /// Performs one action.
    pub(super) fn act(&mut self, world: &mut World, input: &mut Input<'_>) {
        match input.below(16) {
            0..4 => self.request(world, input),
            4 => self.register(world, input),
            5 => self.modify(world, input),
            6 => world.now = Time(world.now.0 + input.number().min(1 << 34)),
            deed => {
                if let Some(parts) = &mut self.parts {
                    parts.act(deed, input);
                }
            }
        }
        world.rang(self.id);
    }

    /// Sends a request with any bytes, among them existing handles; requests that name memory are left to
    /// [`register`](Self::register).
    fn request(&mut self, world: &mut World, input: &mut Input<'_>) {
        let code = match u32::from(input.byte() % 36) {
            code if code == Code::RegMr as u32 || code == Code::ReregMr as u32 => return,
            code => code,
        };
        let length = usize::from(input.half()) % (PACKET_MAX - size_of::<Header>());
        let mut body = vec![0; length];
        let any = input.bytes(length);
        body[..any.len()].copy_from_slice(any);
        for _ in 0..input.below(4) {
            let (at, handle) = (usize::from(input.byte()) * 4, input.byte());
            if let (Some(place), Some(handle)) = (
                body.get_mut(at..at + 4),
                self.known.get(usize::from(handle)),
            ) {
                place.copy_from_slice(&handle.to_ne_bytes());
            }
        }
        let fds: Vec<OwnedFd> = (0..input.below(6))
            .filter_map(|_| descriptor(input))
            .collect();
        self.ask(world, code, &body, &fds);
    }

    /// Registers a region in the arena, or where nothing is mapped.
    fn register(&mut self, world: &mut World, input: &mut Input<'_>) {
        let offset = u64::from(input.half());
        let (address, room) = match input.below(4) {
            0 => (offset % LOW_BYTES, LOW_BYTES - offset % LOW_BYTES),
            1 => (HIGH.wrapping_add(input.number() & (HIGH - 1)), u64::MAX),
            _ => (arena() + offset, ARENA_BYTES as u64 - offset),
        };
        let wanted = RegMr {
            address,
            length: input.number().min(room),
            iova: input.number(),
            pd: self.handle(input),
            access: input.number() as u32,
            file: FileRange {
                offset: input.number(),
                length: input.number(),
                address: input.number(),
            },
            adoption: input.number() as u32,
            reserved: 0,
        };
        let fds: Vec<OwnedFd> = (0..input.below(3))
            .filter_map(|_| descriptor(input))
            .collect();
        if input.is_odd() {
            let again = ReregMr {
                wanted,
                mr: self.handle(input),
                reserved: 0,
            };
            self.ask(world, ReregMr::CODE, again.as_bytes(), &fds);
        } else {
            self.ask(world, RegMr::CODE, wanted.as_bytes(), &fds);
        }
    }

    fn handle(&self, input: &mut Input<'_>) -> u32 {
        let at = usize::from(input.byte());
        self.known.get(at).copied().unwrap_or(at as u32)
    }

    fn modify(&mut self, world: &mut World, input: &mut Input<'_>) {
        let (step, peer) = (input.below(8), input.byte());
        let mut modify = match STEPS.get(step) {
            Some(step) => self.step(*step, peer & 1, input.word()),
            None => ModifyQp {
                qp: self.handle(input),
                mask: 1,
                attributes: QpAttributes {
                    state: step as u32 % 8,
                    ..QpAttributes::default()
                },
            },
        };
        if input.is_odd() {
            modify.mask ^= input.number() as u32;
            let at = input.below(size_of::<QpAttributes>());
            modify.attributes.as_mut_bytes()[at] = input.byte();
        }
        self.ask(world, ModifyQp::CODE, modify.as_bytes(), &[]);
    }

    fn step(&self, Step { state, mask }: Step, peer: u8, number: u32) -> ModifyQp {
        let mut dgid = [0; 16];
        dgid[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, peer + 1]);
        let attributes = QpAttributes {
            state,
            port: 1,
            access: 15,
            path_mtu: 1,
            dest_qp_num: number,
            address: AddressVector {
                dgid,
                sgid_index: 1,
                hop_limit: 64,
                port: 1,
                ..AddressVector::default()
            },
            max_dest_rd_atomic: 4,
            max_rd_atomic: 4,
            min_rnr_timer: 12,
            timeout: 14,
            retry_count: 2,
            rnr_retry: 7,
            ..QpAttributes::default()
        };
        ModifyQp {
            qp: self.parts.as_ref().map_or(0, |parts| parts.qp.qp),
            mask,
            attributes,
        }
    }
}

/// Connects the first two clients.
pub(super) fn connect(world: &mut World, clients: &mut [Client]) {
    let told = |client: &Client| {
        let parts = client.parts.as_ref()?;
        Some((parts.qp.qp_num, parts.region))
    };
    let Some(ends): Option<Vec<_>> = clients.iter().map(told).collect() else {
        return;
    };
    for (client, peer) in clients.iter_mut().zip([1, 0]) {
        let (number, region) = ends[peer];
        for step in STEPS {
            let modify = client.step(step, peer as u8, number);
            client.ask(world, ModifyQp::CODE, modify.as_bytes(), &[]);
        }
        if let Some(parts) = &mut client.parts {
            parts.peer = Some(region);
        }
    }
}
