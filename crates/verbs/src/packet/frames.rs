//! Units of several packets on their way out: headers of all packets, the payload fetched at once and
//! straight to where the packets want it.
//!
//! ```text
//!   unit ─► Frames ─► lengths ─► the caller's rooms, one a frame
//!                                | headers | payload 1 | ICRC |   | headers | payload 2 | ICRC |
//!                                          '------ one read of memory ------'
//! ```

use alloc::vec;
use alloc::vec::Vec;

use smallvec::SmallVec;
use vrdma_wire::{BuildError, Mtu, PacketBuilder, Path, Transport, frame_len};

use crate::memory::{Memory, Stretch};
use crate::packet::encode::{Place, reply_headers, request_headers_at};
use crate::packet::{FrameError, Link, Reply};
use crate::unit::{Payload, Request, Response, ResponseBody};

/// Packets that need no memory of their own: those of 64 KiB at the largest path MTU.
const USUAL: usize = 16;

/// One packet without its payload.
#[derive(Debug)]
struct Sheet {
    path: Path,
    transport: Transport,
    payload: usize,
}

/// The frames of a SEND, of a WRITE or of READ data.
#[derive(Debug)]
pub struct Frames<'a, R> {
    payload: Carries<'a, R>,
    sheets: SmallVec<[Sheet; USUAL]>,
}

#[derive(Debug)]
enum Carries<'a, R> {
    Bytes(&'a [u8]),
    Stretches(&'a [Stretch<R>]),
}

impl<'a, R> Frames<'a, R> {
    /// The packets of a SEND or WRITE.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn of_request(request: &'a Request<R>, link: &Link) -> Result<Self, FrameError> {
        let payload = match &request.payload {
            Payload::Inline(inline) => Carries::Bytes(inline.bytes()),
            Payload::Short(short) => Carries::Bytes(short.bytes()),
            Payload::Memory(stretches) => Carries::Stretches(stretches),
        };
        let length = request.payload.length();
        let whole = (request.packets, request.first, request.last);
        let sheets = sheets(length, whole, |place| {
            request_headers_at(request, place, link)
        })?;
        Ok(Self { payload, sheets })
    }

    /// The packets of an answer that is READ data; `None` for any other answer.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn of_reply(reply: &'a Reply<R>, link: &Link) -> Result<Option<Self>, FrameError> {
        let Reply::Response {
            response,
            packets,
            first,
            last,
        } = reply
        else {
            return Ok(None);
        };
        let Response {
            body: ResponseBody::Read(data),
            ..
        } = response
        else {
            return Ok(None);
        };
        let length = data.iter().map(|part| u64::from(part.length)).sum();
        let whole = (*packets, *first, *last);
        let sheets = sheets(length, whole, |place| reply_headers(response, place, link))?;
        let payload = Carries::Stretches(data);
        Ok(Some(Self { payload, sheets }))
    }

    /// Bytes of every frame, in order.
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
            // The payload is there already.
            builder
                .push_with(sheet.payload, |_| Ok::<_, FrameError>(()))?
                .finish();
        }
        Ok(())
    }

    /// The frames in memory of their own, for wires that take them one by one.
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

/// Headers of every packet of a unit of `length` bytes.
fn sheets(
    length: u64,
    (packets, first, last): (u32, bool, bool),
    headers: impl Fn(Place) -> Result<(Path, Transport), FrameError>,
) -> Result<SmallVec<[Sheet; USUAL]>, FrameError> {
    let length = u32::try_from(length).map_err(|_| FrameError::NotAPacket)?;
    let mtu = packet_bytes(length, packets)?;
    let sheet = |number: u32| {
        let start = number * mtu;
        let ends = number + 1 == packets;
        let (path, transport) = headers(Place {
            number,
            first: first && number == 0,
            last: last && ends,
            ends,
        })?;
        Ok(Sheet {
            path,
            transport,
            payload: (length - start).min(mtu) as usize,
        })
    };
    (0..packets).map(sheet).collect()
}

/// The path MTU of a unit: the only one by which so many bytes are so many packets, for each is half
/// of the next. A single packet has any that it fits.
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

/// Payload of several stretches, whose borders are not those of packets.
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
