//! Outgoing units, as one packet or several: the headers of all packets are made, and the payload is fetched at once,
//! straight into its places in the packets.
//!
//! ```text
//!   unit ─► Frames ─► lengths ─► the caller's rooms, one a frame
//!                                | headers | payload 1 | ICRC |   | headers | payload 2 | ICRC |
//!                                          '------ one read of memory ------'
//! ```

use alloc::vec;
use alloc::vec::Vec;

use smallvec::{SmallVec, smallvec};
use vrdma_wire::{BuildError, Mtu, PacketBuilder, Path, Transport, frame_len};

use crate::memory::{Memory, Stretch};
use crate::packet::encode::{UnitPacket, congestion_headers, request_headers, response_headers};
use crate::packet::{FrameError, Link, Reply};
use crate::unit::{Payload, Request, RequestOp, ResponseBody, bytes_of};

/// Number of rooms that need no memory of their own: those of 64 KiB at the largest path MTU.
const USUAL: usize = 16;

/// The packets of a unit. Most units have one. More are kept in memory of their own, since [`Frames`] is moved as a
/// whole.
type Sheets = SmallVec<[Sheet; 1]>;

/// One packet without its payload.
#[derive(Debug)]
struct Sheet {
    path: Path,
    transport: Transport,
    payload: usize,
}

/// The frames of a request or of an answer.
#[derive(Debug)]
pub struct Frames<'a, R> {
    payload: Carries<'a, R>,
    sheets: Sheets,
}

#[derive(Debug)]
enum Carries<'a, R> {
    Bytes(&'a [u8]),
    Stretches(&'a [Stretch<R>]),
}

impl<'a, R> Frames<'a, R> {
    /// Makes the packets of a request.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn of_request(request: &'a Request<R>, link: &Link) -> Result<Self, FrameError> {
        let payload = match &request.payload {
            Payload::Inline(inline) => Carries::Bytes(inline.bytes()),
            Payload::Short(short) => Carries::Bytes(short.bytes()),
            Payload::Memory(stretches) => Carries::Stretches(stretches),
        };
        let whole = Whole {
            length: request.payload.length(),
            packets: match request.op {
                // A READ stands for the packets of its answer, but is one packet itself.
                RequestOp::Read { .. } => 1,
                _ => request.packets,
            },
            first: request.first,
            last: request.last,
        };
        let sheets = whole.sheets(|place| request_headers(request, place, link))?;
        Ok(Self { payload, sheets })
    }

    /// Makes the packets of an answer.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn of_reply(reply: &'a Reply<R>, link: &Link) -> Result<Self, FrameError> {
        match reply {
            Reply::Response {
                response,
                packets,
                first,
                last,
            } => {
                let data: &[Stretch<R>] = match &response.body {
                    ResponseBody::Read(data) => data,
                    _ => &[],
                };
                let whole = Whole {
                    length: bytes_of(data),
                    packets: *packets,
                    first: *first,
                    last: *last,
                };
                let sheets = whole.sheets(|place| response_headers(response, place, link))?;
                let payload = Carries::Stretches(data);
                Ok(Self { payload, sheets })
            }
            Reply::Congestion {
                route,
                source,
                destination,
            } => {
                let (path, transport) = congestion_headers(route, *source, *destination, link)?;
                let sheet = Sheet {
                    path,
                    transport,
                    payload: 0,
                };
                Ok(Self {
                    payload: Carries::Bytes(&[]),
                    sheets: smallvec![sheet],
                })
            }
        }
    }

    /// Returns the bytes of every frame, in order.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        let sheets = self.sheets.iter();
        sheets.map(|sheet| frame_len(&sheet.path, &sheet.transport, sheet.payload))
    }

    /// Writes every frame to the front of its room.
    ///
    /// # Errors
    /// See [`FrameError`]; with `Payload` tell the requester by [`Request::payload_lost`]. The rooms'
    /// contents are lost.
    pub fn write<M: Memory<Region = R>>(
        &self,
        memory: &M,
        rooms: &mut [&mut [u8]],
    ) -> Result<(), FrameError> {
        let mut places: SmallVec<[&mut [u8]; USUAL]> = SmallVec::new();
        for (sheet, room) in self.sheets.iter().zip(rooms.iter_mut()) {
            let need = frame_len(&sheet.path, &sheet.transport, sheet.payload);
            let at = sheet.path.header_len() + sheet.transport.header_len();
            let place = room.get_mut(..need).ok_or(BuildError::Buffer { need })?;
            places.push(&mut place[at..at + sheet.payload]);
        }
        match &self.payload {
            Carries::Bytes(bytes) => copy(bytes, places),
            Carries::Stretches(stretches) => gather(stretches, memory, places)?,
        }
        for (sheet, room) in self.sheets.iter().zip(rooms) {
            let builder = PacketBuilder::new(&sheet.path, &sheet.transport, sheet.payload, room)?;
            // The payload is in its place already.
            builder
                .push_with(sheet.payload, |_| Ok::<_, FrameError>(()))?
                .finish();
        }
        Ok(())
    }

    /// Makes the frames in memory of their own, for callers that take them one by one.
    ///
    /// # Errors
    /// As [`Frames::write`].
    pub fn to_vecs<M: Memory<Region = R>>(&self, memory: &M) -> Result<Vec<Vec<u8>>, FrameError> {
        let mut frames: Vec<_> = self.lengths().map(|length| vec![0; length]).collect();
        let mut rooms: Vec<_> = frames.iter_mut().map(Vec::as_mut_slice).collect();
        self.write(memory, &mut rooms)?;
        Ok(frames)
    }
}

/// A unit, which is a part of its message or all of it.
struct Whole {
    length: u64,
    packets: u32,
    first: bool,
    last: bool,
}

impl Whole {
    /// Makes the headers of every packet.
    fn sheets(
        &self,
        headers: impl Fn(UnitPacket) -> Result<(Path, Transport), FrameError>,
    ) -> Result<Sheets, FrameError> {
        let length = u32::try_from(self.length).map_err(|_| FrameError::NotAPacket)?;
        let mtu = packet_bytes(length, self.packets)?;
        let mut sheets = Sheets::new();
        for number in 0..self.packets {
            let ends = number + 1 == self.packets;
            let (path, transport) = headers(UnitPacket {
                number,
                first: self.first && number == 0,
                last: self.last && ends,
                ends,
            })?;
            sheets.push(Sheet {
                path,
                transport,
                payload: (length - number * mtu).min(mtu) as usize,
            });
        }
        Ok(sheets)
    }
}

/// Returns the path MTU of a unit: the only one by which `length` bytes are `packets` packets, since each MTU is half
/// of the next. For a single packet it is any MTU that fits.
fn packet_bytes(length: u32, packets: u32) -> Result<u32, FrameError> {
    let mut sizes = (1..=5).rev().filter_map(Mtu::from_code);
    let found = sizes.find(|mtu| mtu.packets(length) == packets);
    found.map(Mtu::bytes).ok_or(FrameError::NotAPacket)
}

fn copy(bytes: &[u8], places: SmallVec<[&mut [u8]; USUAL]>) {
    let mut rest = bytes;
    for place in places {
        let (piece, behind) = rest.split_at(place.len().min(rest.len()));
        place[..piece.len()].copy_from_slice(piece);
        rest = behind;
    }
}

/// Reads the payload from several stretches, whose borders are not those of packets.
fn gather<M: Memory>(
    stretches: &[Stretch<M::Region>],
    memory: &M,
    mut places: SmallVec<[&mut [u8]; USUAL]>,
) -> Result<(), FrameError> {
    if let [one] = stretches {
        let read = memory.read_parts(&one.region, one.offset, &mut places);
        return read.map_err(FrameError::Payload);
    }
    let mut places = places.into_iter();
    let mut room: &mut [u8] = &mut [];
    for part in stretches {
        let (mut at, mut left) = (part.offset, part.length as usize);
        while left > 0 {
            if room.is_empty() {
                room = places.next().ok_or(FrameError::NotAPacket)?;
                continue;
            }
            let now = left.min(room.len());
            let (piece, behind) = core::mem::take(&mut room).split_at_mut(now);
            let read = memory.read(&part.region, at, piece);
            read.map_err(FrameError::Payload)?;
            at += now as u64;
            left -= now;
            room = behind;
        }
    }
    Ok(())
}
