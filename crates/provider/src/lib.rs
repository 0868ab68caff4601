//! The protocol between a process's libibverbs and the daemon.
//!
//! ```text
//!   libibverbs in the process                               vrdmad
//!      Connection ── SOCK_SEQPACKET: one request, one reply ──► control of objects
//!      SendQueue, ReceiveQueue ── memfd: slots, producer ─────► reads private copies
//!      CompletionQueue ◄───────── memfd: entries, producer ──── writes
//!      Doorbells ──────────────── memfd: bits, `sleeping` ────► polls, or sleeps on the eventfd
//!      channel, async events ◄─── pipes: 8 and 16 byte records ─ writes
//! ```
//!
//! Both ends live here. [`client`] is for the process (no thread, no async, no allocation per work request), [`daemon`]
//! for the other side, which takes private copies, checks every index and trusts nothing that it reads. This room knows
//! neither the meaning of the verbs, nor how either side stores its objects. Everything is native-endian: both ends run
//! on one host.
//!
//! # Control messages
//!
//! The socket's path is `$VRDMA_SOCKET`; without it, the first of `$XDG_RUNTIME_DIR/vrdma` and `/run/vrdma` that has a
//! socket ([`socket::path`] decides). A connection is one `ibv_open_device`: its end destroys all its objects. A packet
//! is a [`message::Header`] and a body of fixed size; the code determines the type of the body. A reply has the code of
//! its request, and an errno (0: the body is valid). [`message::Call`] ties a request to its code and reply.
//! Descriptors travel as SCM_RIGHTS beside the message that names them below:
//!
//! | request | fds with it | fds with the reply |
//! |---|---|---|
//! | [`message::ListAdapter`], [`message::FindAdapter`] (also before hello) | | |
//! | [`message::Hello`] | `/proc/self/mem`, opened for reading and writing | doorbell page, wake eventfd, async event pipe (read end), page of grants if asked for |
//! | [`message::QueryDevice`], [`message::QueryPort`], [`message::QueryGid`] | | |
//! | [`message::AllocPd`], [`message::DeallocPd`] | | |
//! | [`message::RegMr`], [`message::ReregMr`] | optional: the file behind a shared mapping | |
//! | [`message::DeregMr`], [`message::AllocMw`], [`message::DeallocMw`] | | |
//! | [`message::CreateChannel`] | | completion pipe (read end) |
//! | [`message::CreateCq`], [`message::ResizeCq`] | | ring |
//! | [`message::CreateSrq`] | | ring |
//! | [`message::CreateQp`] | | rings |
//! | [`message::Reach`] | | the peer's memory, or the file behind its region |
//! | the rest | | |
//!
//! How a client reaches a peer of the same user without the daemon: [`fast`].
//!
//! Connections of [`cm`] (connection management) begin with a greeting of their own.
//!
//! Device facts that need no message: one port, one pkey 0xffff at index 0, link layer Ethernet,
//! GID 0 the link-local one of the MAC and GID 1 the IPv4-mapped address, both RoCE v2. Address
//! handles live in the library: a datagram carries its [`layout::AddressVector`].
//!
//! # Queues
//!
//! The memory of a queue pair, SRQ or CQ is whole pages of a memfd that the daemon made and sealed, so that it cannot
//! shrink. The same file may have other queues of this client. The reply tells the offsets in the file
//! ([`message::QueueGeometry`]) and, as `bytes`, where the queue ends; the queue begins with the page of its first
//! header ([`client::QueueMemory`]). Each work queue begins with a [`layout::QueueHeader`]:
//!
//! ```text
//!   +0    producer   written by the client    free-running u32; slot = index & (slots - 1)
//!   +64   consumer   written by the daemon    slots before it may be used again
//!   +128  ring       written by the daemon    not 0: the client must ring after posting here
//! ```
//!
//! A send slot is a [`layout::SendHeader`] ([`operation`] explains its fields) and its buffers ([`layout::Buffer`]); a
//! receive slot is a [`layout::RecvHeader`] and its buffers. Payload of SENDs and WRITEs up to [`EAGER_MAX`] bytes and
//! all of `IBV_SEND_INLINE` goes by value into the send queue's data area, a ring of bytes behind the slots: the slot
//! has [`layout::send_flag::DATA`], offset and length, and no buffers. The library must have checked the lkeys before
//! it copies; if in doubt it posts buffers, and the daemon checks them. A piece of data is contiguous, aligned to
//! [`DATA_ALIGN`], and free again when its slot is.
//!
//! To post to a send queue: write slots, store the producer (release), set the queue pair's bit in the doorbell page,
//! then look at `sleeping`, in one order with the daemon's steps (SeqCst): if it is set, clear it and write the
//! eventfd. Once for a chain of requests. Posting receives takes no doorbell unless the queue's `ring` is set (the
//! daemon must flush a queue pair in error).
//!
//! # Completions
//!
//! ```text
//!   +0    consumer   written by the client    free-running
//!   +64   armed      written by the client    0 no, 1 solicited or error, 2 any; the daemon takes it to 0
//!   +128  producer   written by the daemon
//!   +132  owed       the daemon's own: not 0 from before it takes an arming to 0 until the notification is in the pipe
//! ```
//!
//! An entry is a [`layout::Completion`]. The data that it reports is in the program's memory before, unless the entry
//! encloses it: a short message for memory that nobody may look at before its completion. That happens only for a
//! library whose hello has [`message::hello_flag::ENCLOSED`]; its completion queues have a data area:
//!
//! ```text
//!   entry ── enclosed_at, enclosed_bytes ──► header: taken, buffers | Buffer ... | bytes
//! ```
//!
//! The daemon has checked the buffers. The end that sets `taken` first puts the bytes there: the library when it takes
//! the entry, before its consumer index moves on, or the daemon before a region goes.
//!
//! A notification is the CQ's cookie, 8 bytes, in its channel's pipe: one for each arming, when an entry is added
//! later. A daemon that goes on in place of one that ended may repeat the last notification. As with an adapter, a
//! program polls the queue once more after arming it.
//! Notifications that were in the pipe when a CQ went away must be dropped by the reader.
//! An asynchronous event is a [`message::AsyncEvent`] of 16 bytes in the pipe of the hello.
//!
//! # Sleeping
//!
//! ```text
//!   +0    sleeping     1: a ringer must clear it and write the eventfd
//!   +64   summary      bit i: word i has bits
//!   +128  words[64]    bit b of word w: queue w * 64 + b was posted to
//! ```
//!
//! The bit number of a queue pair is `doorbell` in the reply of its creation.

pub mod area;
mod atomics;
pub mod client;
pub mod cm;
pub mod daemon;
pub mod doorbell;
pub mod fast;
pub mod layout;
pub mod message;
#[cfg(loom)]
mod model;
pub mod operation;
pub mod socket;
#[cfg(all(test, not(loom)))]
mod tests;
pub mod version;

pub use version::VERSION;

/// Longest payload that travels by value through a ring. A memory access by `/proc/self/mem` costs 1 us whatever its
/// size; copying 8 KiB twice costs less.
pub const EAGER_MAX: u32 = 8192;

/// Alignment of pieces of a data area.
pub const DATA_ALIGN: u32 = 64;

/// Most queue pairs of one client: the bits of the doorbell page.
pub const QUEUES_MAX: u32 = 4096;

/// Most entries of a work queue.
pub const SLOTS_MAX: u32 = 1 << 16;

/// Most entries of a CQ: libfabric's datagram endpoints ask for four work queues' worth.
pub const CQ_ENTRIES_MAX: u32 = 1 << 18;

/// Most buffers of one work request.
pub const BUFFERS_MAX: u32 = 32;

/// Most bytes of `IBV_SEND_INLINE` payload.
pub const INLINE_MAX: u32 = 1024;

/// Bytes of inline payload for which each queue pair has room, even if its program asked for none: adapters have some
/// room in their slots, and programs such as `rdma_xclient` count on it.
pub const INLINE_MIN: u32 = 64;
