//! A client of the process socket, in place of libibverbs.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vrdma_provider::client::{
    Answer, CallError, CompletionQueue, Connection, QueueMemory, ReceiveQueue, SendQueue,
};
use vrdma_provider::doorbell::Ringer;
use vrdma_provider::fast::Page;
use vrdma_provider::layout::{AddressVector, Buffer, Completion, SendHeader, opcode, send_flag};
use vrdma_provider::message::{
    AllocPd, Call, CreateCq, CreateQp, Hello, ModifyQp, MrReply, NO_CHANNEL, Name, QpAttributes,
    QpCapacity, QpReply, RegMr, qp_type,
};
use vrdma_provider::{VERSION, area::Area};

use crate::admission::connect_as;
use crate::enclosed::{completion_queue, put_in_place};
pub(crate) use crate::host::Host;
use crate::memory::own_memory;

/// Limit for everything here: nothing takes longer than a few retry time-outs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Queue key of all datagram queue pairs here.
pub(crate) const QKEY: u32 = 0x1111;

const NONCE: u64 = 0x6e6f_6e63_652e_2e2e;

/// All access rights.
pub(crate) const ALL_RIGHTS: u32 = 15;

/// An open context with a protection domain.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) ringer: Ringer,
    pub(crate) events: OwnedFd,
    pub(crate) pd: u32,
    /// The page of grants, if the hello asked for it.
    pub(crate) grants: Option<Page>,
    number: u8,
}

/// A queue pair with a CQ of its own.
pub(crate) struct Queues {
    pub(crate) reply: QpReply,
    pub(crate) area: Arc<Area>,
    pub(crate) send: SendQueue,
    pub(crate) recv: ReceiveQueue,
    pub(crate) cq: CompletionQueue,
    pub(crate) cq_handle: u32,
}

pub(crate) fn hello(number: u8) -> Hello {
    Hello {
        version: VERSION,
        flags: 0,
        adapter: Name::new(&format!("c{number}")).unwrap(),
        nonce_address: &raw const NONCE_PLACE as u64,
        nonce: NONCE,
    }
}

static NONCE_PLACE: u64 = NONCE;

pub(crate) fn errno<T: std::fmt::Debug>(result: Result<T, CallError>) -> i32 {
    result.unwrap_err().raw_os_error()
}

impl Client {
    pub(crate) fn open(host: &Host, number: u8) -> Self {
        Self::open_at(&host.path(), number)
    }

    /// Opens a client of the daemon behind a socket.
    pub(crate) fn open_at(socket: &Path, number: u8) -> Self {
        Self::open_with(socket, hello(number), own_memory(), number)
    }

    /// Opens a client with memory that the hello describes.
    pub(crate) fn open_with(socket: &Path, hello: Hello, memory: OwnedFd, number: u8) -> Self {
        Self::over(Connection::open(socket).unwrap(), hello, memory, number)
    }

    /// Opens a client as another user. Only root can do that.
    pub(crate) fn open_as(host: &Host, number: u8, uid: u32) -> Self {
        let connection = connect_as(&host.path(), uid);
        Self::over(connection, hello(number), own_memory(), number)
    }

    fn over(connection: Connection, hello: Hello, memory: OwnedFd, number: u8) -> Self {
        let answer = connection.call(&hello, &[memory.as_fd()]).unwrap();
        let mut fds = answer.fds.into_iter();
        let [page, wake, events] = [(); 3].map(|()| fds.next().unwrap());
        let grants = fds.next().map(|fd| Page::map(fd.as_fd()).unwrap());
        let ringer = Ringer::new(page.as_fd(), wake).unwrap();
        let pd = connection.call(&AllocPd {}, &[]).unwrap().body.pd;
        Self {
            connection,
            ringer,
            events,
            pd,
            grants,
            number,
        }
    }

    pub(crate) fn call<T: Call>(&self, request: &T) -> Result<T::Reply, CallError> {
        self.connection.call(request, &[]).map(|answer| answer.body)
    }

    pub(crate) fn register(&self, address: u64, length: u64) -> MrReply {
        let request = RegMr {
            address,
            length,
            iova: address,
            pd: self.pd,
            access: ALL_RIGHTS,
            ..RegMr::default()
        };
        self.call(&request).unwrap()
    }

    pub(crate) fn queues(&self, entries: u32) -> Queues {
        self.queues_of(qp_type::RC, entries)
    }

    pub(crate) fn queues_of(&self, qp_type: u32, entries: u32) -> Queues {
        let request = CreateCq {
            cookie: 77,
            entries,
            channel: NO_CHANNEL,
        };
        let (cq, cq_handle) = completion_queue(self.connection.call(&request, &[]).unwrap());
        let made = self.queue_pair(qp_type, cq_handle);
        let QpReply {
            send, recv, bytes, ..
        } = made.body;
        let memory = QueueMemory::map(made.fds[0].as_fd(), send.header, bytes).unwrap();
        let (send, recv) = (memory.place(send).unwrap(), memory.place(recv).unwrap());
        Queues {
            send: SendQueue::new(memory.area(), send).unwrap(),
            recv: ReceiveQueue::new(memory.area(), recv).unwrap(),
            reply: QpReply {
                send,
                recv,
                ..made.body
            },
            area: memory.area(),
            cq,
            cq_handle,
        }
    }

    /// Creates a queue pair whose completions go to that completion queue.
    pub(crate) fn queue_pair(&self, qp_type: u32, cq: u32) -> Answer<QpReply> {
        let capacity = QpCapacity {
            max_send_wr: 16,
            max_recv_wr: 16,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline: 64,
        };
        let request = CreateQp {
            cookie: 99,
            pd: self.pd,
            qp_type,
            send_cq: cq,
            recv_cq: cq,
            capacity,
            ..CreateQp::default()
        };
        self.connection.call(&request, &[]).unwrap()
    }

    fn step(&self, queues: &QpReply, mask: u32, attributes: QpAttributes) {
        let request = ModifyQp {
            qp: queues.qp,
            mask,
            attributes,
        };
        self.call(&request).unwrap();
    }

    /// Takes a queue pair from RESET to RTS, towards a queue pair of adapter `peer`.
    pub(crate) fn connect(&self, queues: &Queues, peer: u8, number: u32, terms: Terms) {
        self.connect_pair(&queues.reply, peer, number, terms);
    }

    /// The same for a queue pair without rings here.
    pub(crate) fn connect_pair(&self, queues: &QpReply, peer: u8, number: u32, terms: Terms) {
        let mut dgid = [0; 16];
        dgid[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, peer + 1]);
        let address = AddressVector {
            dgid,
            sgid_index: 1,
            hop_limit: 64,
            port: 1,
            ..AddressVector::default()
        };
        let plain = QpAttributes {
            port: 1,
            access: ALL_RIGHTS,
            ..QpAttributes::default()
        };
        self.step(queues, 1 | 8 | 16 | 32, QpAttributes { state: 1, ..plain });
        let rtr = QpAttributes {
            state: 2,
            path_mtu: 3,
            dest_qp_num: number,
            rq_psn: terms.psns.1,
            address,
            max_dest_rd_atomic: 4,
            min_rnr_timer: 12,
            ..plain
        };
        let rtr_mask = 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20;
        self.step(queues, rtr_mask, rtr);
        let rts = QpAttributes {
            state: 3,
            timeout: terms.timeout,
            retry_count: terms.retry_count,
            sq_psn: terms.psns.0,
            rnr_retry: 7,
            max_rd_atomic: 4,
            ..plain
        };
        self.step(
            queues,
            1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16,
            rts,
        );
    }

    /// Moves a queue pair into the error state.
    pub(crate) fn fail(&self, queues: &Queues) {
        let attributes = QpAttributes {
            state: 6,
            ..QpAttributes::default()
        };
        self.step(&queues.reply, 1, attributes);
    }

    /// Makes a datagram queue pair in RTS.
    pub(crate) fn datagram(&self) -> Queues {
        let queues = self.queues_of(qp_type::UD, 16);
        let plain = QpAttributes {
            port: 1,
            qkey: QKEY,
            ..QpAttributes::default()
        };
        let state = |state| QpAttributes { state, ..plain };
        self.step(&queues.reply, 1 | 16 | 32 | 64, state(1));
        self.step(&queues.reply, 1, state(2));
        self.step(&queues.reply, 1 | 1 << 16, state(3));
        queues
    }

    pub(crate) fn post_recv(&self, queues: &mut Queues, wr_id: u64, buffer: Buffer) {
        queues.recv.push(wr_id, &[buffer]).unwrap();
        if queues.recv.publish() {
            self.ringer.ring(queues.reply.doorbell);
        }
    }

    pub(crate) fn post_send(&self, queues: &mut Queues, header: SendHeader, buffer: Buffer) {
        let header = SendHeader {
            flags: header.flags | send_flag::SIGNALED,
            ..header
        };
        queues.send.push(&header, &[buffer]).unwrap();
        queues.send.publish();
        self.ringer.ring(queues.reply.doorbell);
    }

    pub(crate) fn number(&self) -> u8 {
        self.number
    }
}

/// Parameters with which queue pairs connect.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    /// A try takes 4.096 us times two to the power of this.
    pub(crate) timeout: u8,
    /// Tries after the first.
    pub(crate) retry_count: u8,
    /// PSNs of the next packet to send, and of the next one to receive.
    pub(crate) psns: (u32, u32),
}

/// Thirty milliseconds a try: all tries together take longer than a shard is held up by memory that never comes.
pub(crate) const SHORT: Terms = Terms {
    timeout: 13,
    retry_count: 2,
    psns: (0, 0),
};

/// A second a try, and eight tries.
pub(crate) const LONG: Terms = Terms {
    timeout: 18,
    retry_count: 7,
    ..SHORT
};

/// Makes two connected queue pairs.
pub(crate) fn pair(a: &Client, b: &Client) -> (Queues, Queues) {
    connected(a, b, SHORT)
}

/// Makes two queue pairs that are connected on these terms.
pub(crate) fn connected(a: &Client, b: &Client, terms: Terms) -> (Queues, Queues) {
    let (ours, theirs) = (a.queues(64), b.queues(64));
    a.connect(&ours, b.number(), theirs.reply.qp_num, terms);
    b.connect(&theirs, a.number(), ours.reply.qp_num, terms);
    (ours, theirs)
}

impl Queues {
    /// Returns a completion, if there is one.
    pub(crate) fn poll(&mut self) -> Option<Completion> {
        self.cq.poll(|_, message| put_in_place(message))
    }

    /// Waits for the next completion.
    pub(crate) fn wait(&mut self) -> Completion {
        let begun = Instant::now();
        loop {
            if let Some(entry) = self.poll() {
                return entry;
            }
            assert!(begun.elapsed() < PATIENCE, "no completion came");
            std::thread::yield_now();
        }
    }
}

/// Bytes and the region that covers them.
pub(crate) struct Memory {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) mr: MrReply,
}

impl Memory {
    pub(crate) fn new(client: &Client, byte: u8, length: usize) -> Self {
        let bytes = vec![byte; length].into_boxed_slice();
        let mr = client.register(bytes.as_ptr() as u64, length as u64);
        Self { bytes, mr }
    }

    pub(crate) fn buffer(&self) -> Buffer {
        Buffer {
            addr: self.bytes.as_ptr() as u64,
            length: self.bytes.len() as u32,
            lkey: self.mr.lkey,
        }
    }

    /// Reads the first byte as it is now: the daemon writes it without the compiler's knowledge.
    pub(crate) fn first(&self) -> u8 {
        // SAFETY: the box is alive.
        unsafe { std::ptr::read_volatile(self.bytes.as_ptr()) }
    }
}

pub(crate) fn send(wr_id: u64) -> SendHeader {
    SendHeader {
        wr_id,
        opcode: opcode::SEND,
        ..SendHeader::default()
    }
}

pub(crate) fn write(wr_id: u64, to: &Memory) -> SendHeader {
    SendHeader {
        wr_id,
        opcode: opcode::RDMA_WRITE,
        remote_addr: to.bytes.as_ptr() as u64,
        rkey: to.mr.rkey,
        ..SendHeader::default()
    }
}

/// Sends a message to show that this pair works.
pub(crate) fn assert_works(a: &Client, b: &Client, queues: &mut (Queues, Queues)) {
    let (from, to) = (Memory::new(a, 0x5a, 3000), Memory::new(b, 0, 3000));
    b.post_recv(&mut queues.1, 1, to.buffer());
    a.post_send(&mut queues.0, send(2), from.buffer());
    assert_eq!(queues.1.wait().status, 0);
    assert_eq!(queues.0.wait().status, 0);
    assert_eq!(to.first(), 0x5a);
}
