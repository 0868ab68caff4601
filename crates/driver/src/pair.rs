//! Two connected queue pairs with memory, ready for traffic: the start of most tests.

use vrdma_pvrdma::DeviceConfig;

use crate::fabric::Fabric;
use crate::object::{Buffer, Completion, Connection, Context, Cq, Mr, Pd, Qp, QpShape, rights};
use crate::work::SendWork;

/// Bytes of each end's buffer.
const BUFFER_BYTES: u64 = 64 << 10;
/// Offset in the first page: few programs' buffers begin at a page.
const BUFFER_OFFSET: u64 = 0x123;
const CQ_ENTRIES: u32 = 256;
const QKEY: u32 = 0x1234;

/// One end of a pair.
#[derive(Clone, Debug)]
pub struct End {
    /// Number of its guest in the fabric.
    pub guest: usize,
    /// Its program, or the guest's kernel.
    pub context: Context,
    /// Protection domain of all its objects.
    pub pd: Pd,
    /// CQ of the sends.
    pub send_cq: Cq,
    /// CQ of the receives.
    pub recv_cq: Cq,
    /// The queue pair.
    pub qp: Qp,
    /// Registered memory with all rights.
    pub buffer: Buffer,
    /// The buffer's registration.
    pub mr: Mr,
}

/// The options of a pair.
#[derive(Clone, Copy, Debug)]
pub struct PairOptions {
    /// Shape of the queue pairs.
    pub shape: QpShape,
    /// Whether the guests' kernels own the queue pairs, not programs.
    pub kernel: bool,
    /// Whether both ends are in one guest.
    pub loopback: bool,
    /// Retries when the receiver is not ready; 7 is for ever.
    pub rnr_retry: u8,
    /// Access rights of the queue pairs.
    pub access: u32,
}

impl Default for PairOptions {
    fn default() -> Self {
        Self {
            shape: QpShape::RC,
            kernel: false,
            loopback: false,
            rnr_retry: 7,
            access: rights::ALL,
        }
    }
}

/// A fabric with two ends `a` and `b`.
pub struct Pair {
    /// The guests.
    pub fabric: Fabric,
    /// The end that usually requests.
    pub a: End,
    /// The end that usually responds.
    pub b: End,
}

impl Pair {
    /// Connects a program in each of two guests.
    pub fn new() -> Self {
        Self::with(PairOptions::default())
    }

    /// Connects the kernels of two guests.
    pub fn kernel() -> Self {
        Self::with(PairOptions {
            kernel: true,
            ..PairOptions::default()
        })
    }

    /// Makes two datagram QPs.
    pub fn datagrams() -> Self {
        Self::with(PairOptions {
            shape: QpShape::UD,
            ..PairOptions::default()
        })
    }

    /// Makes a pair with these options.
    pub fn with(options: PairOptions) -> Self {
        let mut fabric = Fabric::new();
        let a = fabric.add();
        let b = if options.loopback { a } else { fabric.add() };
        Self::between(fabric, (a, b), options)
    }

    /// Makes a pair with changed devices.
    pub fn on(change: impl Fn(&mut DeviceConfig), options: PairOptions) -> Self {
        let mut fabric = Fabric::new();
        let mut add = |number| {
            let mut config = DeviceConfig::new(Fabric::identity(number));
            change(&mut config);
            fabric.add_with(config)
        };
        let (a, b) = (add(1), add(2));
        Self::between(fabric, (a, b), options)
    }

    /// Connects two guests of a fabric.
    pub fn between(mut fabric: Fabric, guests: (usize, usize), options: PairOptions) -> Self {
        let a = fabric.end(guests.0, options);
        let b = fabric.end(guests.1, options);
        let mut pair = Self { fabric, a, b };
        pair.start(options);
        pair
    }

    fn start(&mut self, options: PairOptions) {
        let ends = [(&self.a, &self.b), (&self.b, &self.a)];
        for (end, peer) in ends {
            let gid = self.fabric[peer.guest].gid();
            let guest = &mut self.fabric[end.guest];
            let started = match options.shape.qp_type {
                vrdma_pvrdma::abi::request::qp_type::RC => {
                    let connection = Connection {
                        rnr_retry: options.rnr_retry,
                        access: options.access,
                        ..Connection::to(peer.qp.qpn, gid)
                    };
                    guest.connect(&end.qp, &connection)
                }
                _ => guest.start_datagrams(&end.qp, QKEY),
            };
            started.expect("two fresh QPs connect");
        }
    }

    /// Posts a send of `a`, and moves units until nothing is left to do.
    pub fn send(&mut self, request: &SendWork) {
        let posted = self.fabric[self.a.guest].post_send(&self.a.qp, request);
        posted.expect("the test leaves room in the ring");
        self.fabric.pump();
    }

    /// Posts a receive of `b`, of `length` bytes at `offset` of its buffer.
    pub fn receive(&mut self, id: u64, offset: u64, length: u32) {
        let sge = self.b.sge(offset, length);
        let posted = self.fabric[self.b.guest].post_recv(&self.b.qp, id, &[sge]);
        posted.expect("the test leaves room in the ring");
    }

    /// Takes the send completions of `a`.
    pub fn sent(&mut self) -> Vec<Completion> {
        self.fabric[self.a.guest].drain_cq(&self.a.send_cq)
    }

    /// Takes the receive completions of `b`.
    pub fn received(&mut self) -> Vec<Completion> {
        self.fabric[self.b.guest].drain_cq(&self.b.recv_cq)
    }

    /// Bytes of `a`'s buffer.
    pub fn bytes_of_a(&self, offset: u64, length: usize) -> Vec<u8> {
        self.a
            .buffer
            .read(&self.fabric[self.a.guest].ram, offset, length)
    }

    /// Bytes of `b`'s buffer.
    pub fn bytes_of_b(&self, offset: u64, length: usize) -> Vec<u8> {
        self.b
            .buffer
            .read(&self.fabric[self.b.guest].ram, offset, length)
    }

    /// The Q_Key of both ends.
    pub const QKEY: u32 = QKEY;
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl End {
    /// Part of the end's buffer, for a work request.
    pub fn sge(&self, offset: u64, length: u32) -> vrdma_pvrdma::abi::work::SgeEntry {
        self.mr.sge(self.buffer.address + offset, length)
    }

    /// Address and key of a byte of the end's buffer, for a peer.
    pub fn remote(&self, offset: u64) -> (u64, u32) {
        self.mr.at(self.buffer.address + offset)
    }
}

impl Fabric {
    /// Creates a program (or the kernel) of a guest with a QP that is still in RESET.
    pub fn end(&mut self, guest: usize, options: PairOptions) -> End {
        const FRESH: &str = "a fresh device has room";
        let number = guest as u64;
        let vm = &mut self[guest];
        let context = match options.kernel {
            true => Context::KERNEL,
            false => vm.open().expect(FRESH),
        };
        let pd = vm.create_pd(context).expect(FRESH);
        let send_cq = vm.create_cq(context, CQ_ENTRIES).expect(FRESH);
        let recv_cq = vm.create_cq(context, CQ_ENTRIES).expect(FRESH);
        let qp = vm.create_qp(pd, (&send_cq, &recv_cq), None, options.shape);
        let qp = qp.expect(FRESH);
        let buffer = vm.buffer_at(BUFFER_OFFSET, BUFFER_BYTES);
        let mr = vm.register(pd, &buffer, rights::ALL).expect(FRESH);
        buffer.fill(&vm.ram, number + u64::from(qp.handle));
        End {
            guest,
            context,
            pd,
            send_cq,
            recv_cq,
            qp,
            buffer,
            mr,
        }
    }
}
