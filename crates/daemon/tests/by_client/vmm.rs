//! A vfio-user client, as far as migration needs it.

use std::io::{ErrorKind, IoSlice, Read, Write as _};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use vrdma_driver::RAM_BASE;
use vrdma_driver::object::Qp;
use vrdma_memory::PAGE;
use vrdma_pvrdma::abi::doorbell::{Doorbell, QpFlags};
use vrdma_vfio_user::message::Command;
use vrdma_vfio_user::migration::State;

use crate::daemon::PATIENCE;

const GET: u32 = 1 << 16;
const SET: u32 = 1 << 17;
const STATE: u32 = 2;
const LOGGING_START: u32 = 6;
const LOGGING_REPORT: u32 = 8;

/// `VFIO_IRQ_SET_DATA_NONE` and others, and VFIO's number of MSI-X.
const NO_DATA: u32 = 1;
const EVENTFD: u32 = 1 << 2;
const TRIGGER: u32 = 1 << 5;
const MSIX: u32 = 2;

/// Numbers of the device's regions.
const DOORBELLS: u32 = 2;

/// Bytes of one piece of device data.
const PIECE: usize = 1000;

/// A write that the device asks its client to do.
pub(super) struct Write {
    id: [u8; 2],
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
}

pub(super) struct Vmm {
    socket: UnixStream,
    id: u16,
}

pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn word(head: &[u8; 16], at: usize) -> u32 {
    u32::from_le_bytes(*head[at..].first_chunk().unwrap())
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_le_bytes()).collect()
}

impl Vmm {
    /// Connects a client that has greeted.
    pub(super) fn connect(socket: &Path) -> Self {
        Self::try_connect(socket).expect("the daemon hung up")
    }

    /// The same, but `None` if the daemon hangs up at once.
    pub(super) fn try_connect(socket: &Path) -> Option<Self> {
        let socket = UnixStream::connect(socket).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut vmm = Self { socket, id: 0 };
        let text = b"\0\0\0\0{\"capabilities\": {\"max_msg_fds\": 8}}\0";
        let message = vmm.message(Command::Version, text);
        let is_refused = vmm.socket.write_all(&message).is_err() || vmm.is_hung_up();
        (!is_refused).then(|| {
            vmm.answer().unwrap();
            vmm
        })
    }

    pub(super) fn ask(&mut self, command: Command, payload: &[u8]) -> Result<Vec<u8>, Errno> {
        self.ask_with(command, payload, &[])
    }

    fn ask_with(
        &mut self,
        command: Command,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Vec<u8>, Errno> {
        let message = self.message(command, payload);
        if fds.is_empty() {
            self.socket.write_all(&message).unwrap();
        } else {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
            let bytes = [IoSlice::new(&message)];
            let sent = sendmsg(&self.socket, &bytes, &mut control, SendFlags::empty());
            assert_eq!(sent, Ok(message.len()));
        }
        self.answer()
    }

    fn message(&mut self, command: Command, payload: &[u8]) -> Vec<u8> {
        self.id += 1;
        let code = (command as u16).to_le_bytes();
        let size = words(&[16 + payload.len() as u32, 0, 0]);
        [&self.id.to_le_bytes(), &code, &*size, payload].concat()
    }

    /// Receives the device's next request, which is to write memory.
    pub(super) fn hear_write(&mut self) -> Write {
        let (head, payload) = self.message_of_peer();
        assert_eq!(head[2..4], (Command::DmaWrite as u16).to_le_bytes());
        let (place, bytes) = payload.split_at(16);
        assert_eq!(place[8..], longs(&[bytes.len() as u64]));
        Write {
            id: [head[0], head[1]],
            address: u64::from_le_bytes(*place.first_chunk().unwrap()),
            bytes: bytes.to_vec(),
        }
    }

    /// Answers that the write was done, or was not.
    pub(super) fn answer_write(&mut self, write: &Write, error: u32) {
        const REPLY: u32 = 1;
        const ERROR: u32 = 1 << 5;
        let flags = REPLY | if error == 0 { 0 } else { ERROR };
        let code = (Command::DmaWrite as u16).to_le_bytes();
        let payload = longs(&[write.address, write.bytes.len() as u64]);
        let size = words(&[16 + payload.len() as u32, flags, error]);
        let message = [&write.id, &code, &*size, &payload].concat();
        self.socket.write_all(&message).unwrap();
    }

    /// Waits for an answer or the end of the connection. Returns whether it is the end.
    fn is_hung_up(&self) -> bool {
        let mut byte = [0];
        let peeked = rustix::net::recv(&self.socket, &mut byte, RecvFlags::PEEK);
        match peeked {
            Ok((_, length)) => length == 0,
            Err(errno) => {
                assert_eq!(errno, Errno::CONNRESET);
                true
            }
        }
    }

    /// Hangs up.
    pub(super) fn hang_up(&self) {
        self.socket.shutdown(Shutdown::Both).unwrap();
    }

    /// Reads and drops input until the connection ends.
    pub(super) fn await_end(mut self) {
        let end = self.socket.read_to_end(&mut Vec::new());
        let is_end = end.map_err(|error| error.kind());
        assert!(
            matches!(is_end, Ok(_) | Err(ErrorKind::ConnectionReset)),
            "{is_end:?}"
        );
    }

    fn answer(&mut self) -> Result<Vec<u8>, Errno> {
        let (head, payload) = self.message_of_peer();
        assert_eq!(head[..2], self.id.to_le_bytes());
        match word(&head, 8) & 1 << 5 {
            0 => Ok(payload),
            _ => Err(Errno::from_raw_os_error(word(&head, 12) as i32)),
        }
    }

    /// Receives a message of the peer: header and payload.
    fn message_of_peer(&mut self) -> ([u8; 16], Vec<u8>) {
        let mut head = [0; 16];
        self.socket.read_exact(&mut head).unwrap();
        let mut payload = vec![0; word(&head, 4) as usize - head.len()];
        self.socket.read_exact(&mut payload).unwrap();
        (head, payload)
    }

    /// Gives the device the guest's memory.
    pub(super) fn map(&mut self, memory: &impl AsFd, bytes: u64) {
        let payload = [words(&[32, 0b11]), longs(&[0, RAM_BASE, bytes])].concat();
        let mapped = self.ask_with(Command::DmaMap, &payload, &[memory.as_fd()]);
        mapped.unwrap();
    }

    pub(super) fn unmap(&mut self, bytes: u64) {
        let payload = [words(&[24, 0]), longs(&[RAM_BASE, bytes])].concat();
        self.ask(Command::DmaUnmap, &payload).unwrap();
    }

    /// Gives the device an eventfd for its first interrupt.
    pub(super) fn wire(&mut self, interrupt: &OwnedFd) {
        let payload = words(&[20, EVENTFD | TRIGGER, MSIX, 0, 1]);
        let wired = self.ask_with(Command::DeviceSetIrqs, &payload, &[interrupt.as_fd()]);
        wired.unwrap();
    }

    /// Has the device raise its first interrupt, without waiting for an answer.
    pub(super) fn say_trigger(&mut self) {
        let payload = words(&[20, NO_DATA | TRIGGER, MSIX, 0, 1]);
        let message = self.message(Command::DeviceSetIrqs, &payload);
        self.socket.write_all(&message).unwrap();
    }

    pub(super) fn reset(&mut self) {
        self.ask(Command::DeviceReset, &[]).unwrap();
    }

    /// Rings the doorbell of a send ring.
    pub(super) fn ring_send(&mut self, qp: &Qp) {
        self.ring(qp, QpFlags::SEND);
    }

    /// Rings the doorbell of a receive ring.
    pub(super) fn ring_recv(&mut self, qp: &Qp) {
        self.ring(qp, QpFlags::RECV);
    }

    fn ring(&mut self, qp: &Qp, flag: QpFlags) {
        let offset = u64::from(qp.page) * PAGE + Doorbell::Qp.offset();
        let value = qp.handle | flag.bits();
        let payload = [longs(&[offset]), words(&[DOORBELLS, 4, value])].concat();
        self.ask(Command::RegionWrite, &payload).unwrap();
    }

    fn feature(&mut self, flags: u32, argsz: u32, data: &[u8]) -> Result<Vec<u8>, Errno> {
        let payload = [&*words(&[argsz, flags]), data].concat();
        let answer = self.ask(Command::DeviceFeature, &payload)?;
        Ok(answer[8..].to_vec())
    }

    pub(super) fn set(&mut self, state: State) -> Result<(), Errno> {
        let data = words(&[state as u32, u32::MAX]);
        self.feature(SET | STATE, 16, &data).map(drop)
    }

    pub(super) fn state(&mut self) -> State {
        let data = self.feature(GET | STATE, 16, &[]).unwrap();
        let code = u32::from_le_bytes(*data.first_chunk().unwrap());
        State::from_code(code).unwrap()
    }

    pub(super) fn start_logging(&mut self) -> Result<(), Errno> {
        let data = [longs(&[PAGE]), words(&[0, 0])].concat();
        self.feature(SET | LOGGING_START, 24, &data).map(drop)
    }

    /// Returns the addresses of pages that the device wrote.
    pub(super) fn written(&mut self, bytes: u64) -> Result<Vec<u64>, Errno> {
        let pages = bytes / PAGE;
        let data = longs(&[RAM_BASE, bytes, PAGE]);
        let argsz = 32 + pages as u32 / 8;
        let answer = self.feature(GET | LOGGING_REPORT, argsz, &data)?;
        let bitmap = &answer[24..];
        let is_written = |page: &u64| bitmap[*page as usize / 8] >> (page % 8) & 1 == 1;
        let written = (0..pages).filter(is_written);
        Ok(written.map(|page| RAM_BASE + page * PAGE).collect())
    }

    /// Reads all of the device's data.
    pub(super) fn read_data(&mut self) -> Vec<u8> {
        let mut data = Vec::new();
        loop {
            let size = words(&[8 + PIECE as u32, PIECE as u32]);
            let answer = self.ask(Command::MigDataRead, &size).unwrap();
            data.extend_from_slice(&answer[8..]);
            if answer.len() < 8 + PIECE {
                return data;
            }
        }
    }

    pub(super) fn write_data(&mut self, data: &[u8]) -> Result<(), Errno> {
        for piece in data.chunks(PIECE) {
            let size = piece.len() as u32;
            let payload = [&*words(&[8 + size, size]), piece].concat();
            self.ask(Command::MigDataWrite, &payload)?;
        }
        Ok(())
    }

    /// Loads the device with this data; it stands still afterwards.
    pub(super) fn load(&mut self, data: &[u8]) -> Result<(), Errno> {
        self.set(State::Resuming)?;
        self.write_data(data)?;
        self.set(State::Stop)
    }
}
