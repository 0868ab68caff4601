//! Messages enclosed in their completions, for a client that puts them in place.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use vrdma_provider::area::Area;
use vrdma_provider::client::{Answer, CompletionQueue, Enclosed, ReceiveQueue};
use vrdma_provider::layout::{AddressVector, Buffer};
use vrdma_provider::message::{
    CqReply, CreateQp, CreateSrq, DeregMr, Hello, QpCapacity, RegMr, ReregMr, ResizeCq, access,
    hello_flag, qp_type,
};

use crate::client::{Client, Host, Memory, QKEY, Queues, hello, pair, send};
use crate::memory::own_memory;
use crate::two;

/// Returns a completion queue that was created, and its handle.
pub(crate) fn completion_queue(made: Answer<CqReply>) -> (CompletionQueue, u32) {
    let area = Area::map(made.fds[0].as_fd(), made.body.bytes as usize).unwrap();
    let queue = CompletionQueue::new(Arc::new(area), made.body.ring).unwrap();
    (queue, made.body.cq)
}

/// Puts a message into its buffers: regions have addresses of this process here.
pub(crate) fn put_in_place(message: &Enclosed<'_>) {
    if message.claim() {
        for piece in message.pieces() {
            // SAFETY: a buffer of a receive, which names memory of the test that posted it.
            unsafe { piece.put(piece.buffer.addr as *mut u8) };
        }
    }
}

impl Client {
    /// Opens a client that puts enclosed messages in place.
    pub(crate) fn enclosing_at(socket: &Path, number: u8) -> Self {
        let hello = Hello {
            flags: hello_flag::ENCLOSED,
            ..hello(number)
        };
        Self::open_with(socket, hello, own_memory(), number)
    }
}

impl Memory {
    /// Registers memory that peers may not write: only messages arrive there.
    pub(crate) fn for_messages(client: &Client, length: usize) -> Self {
        let bytes = vec![0; length].into_boxed_slice();
        let mr = client.call(&registration(client, &bytes)).unwrap();
        Self { bytes, mr }
    }

    /// Reads the byte at an offset as it is now.
    fn now(&self, offset: usize) -> u8 {
        let byte = &raw const self.bytes[offset];
        // SAFETY: the box is alive.
        unsafe { std::ptr::read_volatile(byte) }
    }

    fn part(&self, offset: u64, length: u32) -> Buffer {
        Buffer {
            addr: self.buffer().addr + offset,
            length,
            ..self.buffer()
        }
    }
}

fn registration(client: &Client, bytes: &[u8]) -> RegMr {
    RegMr {
        address: bytes.as_ptr() as u64,
        length: bytes.len() as u64,
        iova: bytes.as_ptr() as u64,
        pd: client.pd,
        access: access::LOCAL_WRITE,
        ..RegMr::default()
    }
}

/// Two connected clients, of which the second puts enclosed messages in place.
struct Scene {
    _host: Host,
    from: Client,
    to: Client,
    queues: (Queues, Queues),
}

impl Scene {
    fn new() -> Self {
        let (host, from, _) = two();
        let to = Client::enclosing_at(&host.path(), 1);
        let queues = pair(&from, &to);
        Self {
            _host: host,
            from,
            to,
            queues,
        }
    }

    /// Sends a message of this length into one buffer, and waits until the sender knows that it has arrived.
    fn send(&mut self, byte: u8, length: usize, into: Buffer) {
        self.to.post_recv(&mut self.queues.1, byte.into(), into);
        let source = Memory::new(&self.from, byte, length);
        self.from
            .post_send(&mut self.queues.0, send(1), source.buffer());
        assert_eq!(self.queues.0.wait().status, 0);
    }

    fn receive(&mut self) -> u64 {
        let entry = self.queues.1.wait();
        assert_eq!(entry.status, 0);
        entry.wr_id
    }
}

#[test]
fn a_message_is_in_place_when_the_client_has_polled() {
    let mut scene = Scene::new();
    let memory = Memory::for_messages(&scene.to, 64);
    scene.send(7, 20, memory.part(8, 30));
    assert_eq!(memory.now(8), 0, "it lies beside its completion");
    assert_eq!(scene.receive(), 7);
    let found = [7, 8, 27, 28].map(|offset| memory.now(offset));
    assert_eq!(found, [0, 7, 7, 0]);
}

#[test]
fn memory_that_peers_reach_has_it_at_once_and_so_has_that_of_others() {
    let mut scene = Scene::new();
    let memory = Memory::new(&scene.to, 0, 64);
    scene.send(7, 20, memory.buffer());
    assert_eq!(memory.first(), 7);
    scene.receive();
    let (to, from) = (&scene.from, &scene.to);
    let memory = Memory::for_messages(to, 64);
    let source = Memory::new(from, 9, 20);
    to.post_recv(&mut scene.queues.0, 1, memory.buffer());
    from.post_send(&mut scene.queues.1, send(1), source.buffer());
    scene.receive();
    assert_eq!(
        memory.first(),
        9,
        "who does not say so puts nothing in place"
    );
}

#[test]
fn a_message_is_there_when_its_region_has_gone() {
    let mut scene = Scene::new();
    let memory = Memory::for_messages(&scene.to, 64);
    let other = Memory::for_messages(&scene.to, 64);
    scene.send(7, 20, memory.buffer());
    scene.send(8, 20, other.buffer());
    let mr = memory.mr.mr;
    scene.to.call(&DeregMr { mr }).unwrap();
    assert_eq!((memory.now(0), memory.now(19)), (7, 7));
    assert_eq!(other.first(), 0);
    // The program may use the memory for something else now, and polling leaves it alone.
    let mut memory = memory;
    memory.bytes.fill(1);
    assert_eq!((scene.receive(), scene.receive()), (7, 8));
    assert_eq!((memory.now(0), other.now(0)), (1, 8));
}

#[test]
fn a_message_is_there_when_its_region_was_replaced() {
    let mut scene = Scene::new();
    let memory = Memory::for_messages(&scene.to, 64);
    let elsewhere = vec![0; 64];
    scene.send(7, 20, memory.buffer());
    let request = ReregMr {
        wanted: registration(&scene.to, &elsewhere),
        mr: memory.mr.mr,
        reserved: 0,
    };
    scene.to.call(&request).unwrap();
    assert_eq!(memory.first(), 7);
}

#[test]
fn without_room_messages_are_stored_at_once_and_none_is_lost() {
    const BYTES: usize = 4096;
    const COUNT: usize = 48;
    let mut scene = Scene::new();
    let memory = Memory::for_messages(&scene.to, COUNT * BYTES);
    let mut at_once = 0;
    for number in 0..COUNT {
        let start = number * BYTES;
        let byte = number as u8 + 1;
        scene.send(byte, BYTES, memory.part(start as u64, BYTES as u32));
        at_once += usize::from(memory.now(start) == byte);
    }
    assert!((8..COUNT - 8).contains(&at_once), "{at_once} of {COUNT}");
    for number in 0..COUNT {
        assert_eq!(scene.receive(), number as u64 + 1);
        let ends = [number * BYTES, (number + 1) * BYTES - 1];
        assert_eq!(ends.map(|at| memory.now(at)), [number as u8 + 1; 2]);
    }
    // With this message, the daemon sees that all earlier ones are polled.
    scene.send(98, BYTES, memory.part(0, BYTES as u32));
    scene.send(99, BYTES, memory.part(0, BYTES as u32));
    assert_eq!(memory.first(), 98, "there is room again");
}

#[test]
fn a_queue_that_is_resized_takes_its_messages_along() {
    let mut scene = Scene::new();
    let memory = Memory::for_messages(&scene.to, 64);
    scene.send(7, 20, memory.buffer());
    let request = ResizeCq {
        cq: scene.queues.1.cq_handle,
        entries: 200,
    };
    let answer = scene.to.connection.call(&request, &[]).unwrap();
    scene.queues.1.cq = completion_queue(answer).0;
    assert_eq!(memory.first(), 0);
    scene.receive();
    assert_eq!(memory.first(), 7);
    scene.send(8, 20, memory.buffer());
    scene.receive();
    assert_eq!(memory.first(), 8);
}

#[test]
fn a_datagram_comes_with_its_header() {
    let (host, from, _) = two();
    let to = Client::enclosing_at(&host.path(), 1);
    let (mut sender, mut receiver) = (from.datagram(), to.datagram());
    let memory = Memory::for_messages(&to, 104);
    to.post_recv(&mut receiver, 1, memory.buffer());
    let mut header = send(1);
    (header.target, header.qkey) = (receiver.reply.qp_num, QKEY);
    let mut dgid = [0; 16];
    dgid[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 2]);
    header.address = AddressVector {
        dgid,
        sgid_index: 1,
        port: 1,
        hop_limit: 1,
        ..AddressVector::default()
    };
    let source = Memory::new(&from, 8, 64);
    from.post_send(&mut sender, header, source.buffer());
    let entry = receiver.wait();
    assert_eq!((entry.status, entry.byte_len), (0, 104));
    assert!(entry.enclosed_bytes > 0, "it lay beside its completion");
    assert_eq!([20, 40, 103].map(|at| memory.now(at)), [0x45, 8, 8]);
}

#[test]
fn receives_of_a_shared_queue_are_served_too() {
    let mut scene = Scene::new();
    let to = &scene.to;
    let memory = Memory::for_messages(to, 64);
    let request = CreateSrq {
        cookie: 5,
        pd: to.pd,
        max_wr: 4,
        max_sge: 2,
        limit: 0,
    };
    let made = to.connection.call(&request, &[]).unwrap();
    let srq = Area::map(made.fds[0].as_fd(), made.body.bytes as usize).unwrap();
    let mut srq = ReceiveQueue::new(Arc::new(srq), made.body.ring).unwrap();
    srq.push(11, &[memory.part(0, 2), memory.part(32, 32)])
        .unwrap();
    let _ = srq.publish();
    let cq = scene.queues.1.cq_handle;
    let request = CreateQp {
        pd: to.pd,
        qp_type: qp_type::RC,
        send_cq: cq,
        recv_cq: cq,
        srq: made.body.srq,
        has_srq: 1,
        capacity: QpCapacity {
            max_send_wr: 1,
            ..QpCapacity::default()
        },
        ..CreateQp::default()
    };
    let reply = to.connection.call(&request, &[]).unwrap().body;
    scene.queues.1.reply = reply;
    scene.queues.0 = scene.from.queues(16);
    let terms = crate::client::SHORT;
    let number = scene.queues.0.reply.qp_num;
    to.connect(&scene.queues.1, 0, number, terms);
    scene.from.connect(&scene.queues.0, 1, reply.qp_num, terms);
    let source = Memory::new(&scene.from, 6, 5);
    scene
        .from
        .post_send(&mut scene.queues.0, send(1), source.buffer());
    assert_eq!(scene.queues.0.wait().status, 0);
    assert_eq!(memory.first(), 0);
    assert_eq!(scene.receive(), 11);
    let found = [0, 1, 2, 32, 34, 35].map(|at| memory.now(at));
    assert_eq!(found, [6, 6, 0, 6, 6, 0]);
}
