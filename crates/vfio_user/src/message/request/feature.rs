//! Features of the device, which all belong to migration, and the data of a migrating device.
//!
//! The errors are the same as those of the kernel's VFIO: `ENOTTY` for a feature that the device lacks, `EINVAL` for
//! the rest, `E2BIG` for too many ranges.

use std::ops::Range;

use rustix::io::Errno;
use zerocopy::FromBytes;

use super::{Request, front, no_wrap, room_for};
use crate::message::layout::{
    DeviceFeature, FeatureMigration, FeatureState, LoggingRange, LoggingReport, LoggingStart,
    MigrationData,
};
use crate::message::{DMA_PAGE_SIZE, MAX_DATA, MAX_LOGGED_RANGES, Refusal};

const INDEX: u32 = 0xffff;
const GET: u32 = 1 << 16;
const SET: u32 = 1 << 17;
const PROBE: u32 = 1 << 18;

/// Numbers of the features.
mod index {
    pub(super) const MIGRATION: u32 = 1;
    pub(super) const STATE: u32 = 2;
    pub(super) const LOGGING_START: u32 = 6;
    pub(super) const LOGGING_STOP: u32 = 7;
    pub(super) const LOGGING_REPORT: u32 = 8;
}

/// Bits in a word of the bitmap of written pages.
const WORD_BITS: u64 = u64::BITS as u64;

/// A query about a feature, or a change of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature<'a> {
    /// The whole payload, which most answers repeat.
    pub payload: &'a [u8],
    /// The query or change.
    pub request: FeatureRequest,
}

/// A query about a feature, or a change of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureRequest {
    /// Whether the feature exists and can be used in these ways: it exists, if the device can migrate.
    Probe,
    /// Query of the states that are offered.
    GetMigration,
    /// Query of the current state.
    GetState,
    /// Change to another state, by a number that may be invalid.
    SetState(u32),
    /// Start of logging which pages are written.
    StartLogging,
    /// End of logging.
    StopLogging,
    /// Query of the pages that were written.
    Report(Report),
}

/// A range of bus addresses, with a bitmap of at most [`MAX_DATA`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// First address, a multiple of the page size.
    pub iova: u64,
    /// Length in bytes, a multiple of [`DMA_PAGE_SIZE`] and not 0; the range does not wrap.
    pub length: u64,
    /// Bytes that one bit stands for: a power of two, [`DMA_PAGE_SIZE`] or more.
    pub page_size: u64,
}

impl Report {
    /// The range.
    pub fn range(&self) -> Range<u64> {
        // The last byte of the address space is in no page that can be mapped.
        self.iova..self.iova.saturating_add(self.length)
    }

    /// Size of the bitmap in bytes: whole words.
    pub fn bitmap_bytes(&self) -> u64 {
        let bits = self.length.div_ceil(self.page_size);
        bits.div_ceil(WORD_BITS) * size_of::<u64>() as u64
    }
}

pub(super) fn device_feature(payload: &[u8]) -> Result<Request<'_>, Refusal> {
    let (head, data) = front::<DeviceFeature>(payload)?;
    let flags = head.flags.get();
    if flags & !(INDEX | GET | SET | PROBE) != 0 {
        return Err(Refusal::invalid("the feature has flags that nobody knows"));
    }
    let methods = flags & (GET | SET);
    let offered = offered(flags & INDEX)?;
    if methods & !offered != 0 {
        return Err(Refusal::invalid("the feature cannot be used like this"));
    }
    let argsz = head.argsz.get();
    room_for::<DeviceFeature>(argsz)?;
    let request = match methods {
        _ if flags & PROBE != 0 => FeatureRequest::Probe,
        GET => get(flags & INDEX, argsz, data)?,
        SET => set(flags & INDEX, argsz, data)?,
        _ => {
            return Err(Refusal::invalid(
                "a feature is read or changed, one at a time",
            ));
        }
    };
    Ok(Request::DeviceFeature(Feature { payload, request }))
}

/// The ways to use a feature.
fn offered(feature: u32) -> Result<u32, Refusal> {
    match feature {
        index::MIGRATION | index::LOGGING_REPORT => Ok(GET),
        index::STATE => Ok(GET | SET),
        index::LOGGING_START | index::LOGGING_STOP => Ok(SET),
        _ => Err(Refusal::no_feature()),
    }
}

fn get(feature: u32, argsz: u32, data: &[u8]) -> Result<FeatureRequest, Refusal> {
    match feature {
        index::MIGRATION => {
            has_room::<FeatureMigration>(argsz)?;
            Ok(FeatureRequest::GetMigration)
        }
        index::STATE => {
            has_room::<FeatureState>(argsz)?;
            Ok(FeatureRequest::GetState)
        }
        _ => report(argsz, data).map(FeatureRequest::Report),
    }
}

fn set(feature: u32, argsz: u32, data: &[u8]) -> Result<FeatureRequest, Refusal> {
    match feature {
        index::STATE => {
            has_room::<FeatureState>(argsz)?;
            let (raw, _) = front::<FeatureState>(data)?;
            Ok(FeatureRequest::SetState(raw.device_state.get()))
        }
        index::LOGGING_START => start(argsz, data),
        _ => Ok(FeatureRequest::StopLogging),
    }
}

/// Checks that `argsz` has room for these data, sent or received.
fn has_room<T>(argsz: u32) -> Result<(), Refusal> {
    has_room_for(argsz, size_of::<T>() as u64)
}

fn has_room_for(argsz: u32, data: u64) -> Result<(), Refusal> {
    match u64::from(argsz) < size_of::<DeviceFeature>() as u64 + data {
        true => Err(Refusal::invalid("argsz is smaller than the feature's data")),
        false => Ok(()),
    }
}

/// Parses a start of logging. All writes are logged, whatever the ranges; they must be valid ranges all the same.
fn start(argsz: u32, data: &[u8]) -> Result<FeatureRequest, Refusal> {
    let (raw, rest) = front::<LoggingStart>(data)?;
    let count = raw.num_ranges.get();
    if count > MAX_LOGGED_RANGES {
        return Err(Refusal {
            errno: Errno::TOOBIG,
            reason: "more ranges are to be logged than there are mappings",
        });
    }
    if !raw.page_size.get().is_power_of_two() {
        return Err(Refusal::invalid("the page size is no power of two"));
    }
    let bytes = count as usize * size_of::<LoggingRange>();
    has_room_for(argsz, (size_of::<LoggingStart>() + bytes) as u64)?;
    let ranges = rest.get(..bytes).map(<[LoggingRange]>::ref_from_bytes);
    let Some(Ok(ranges)) = ranges else {
        return Err(Refusal::invalid("there are fewer ranges than it says"));
    };
    for range in ranges {
        no_wrap(range.iova.get(), range.length.get())?;
    }
    Ok(FeatureRequest::StartLogging)
}

fn report(argsz: u32, data: &[u8]) -> Result<Report, Refusal> {
    let (raw, _) = front::<LoggingReport>(data)?;
    let report = Report {
        iova: raw.iova.get(),
        length: raw.length.get(),
        page_size: raw.page_size.get(),
    };
    let size = report.page_size;
    if !size.is_power_of_two() || size < DMA_PAGE_SIZE {
        return Err(Refusal::invalid("the page size is none that can be told"));
    }
    if !report.iova.is_multiple_of(size) || !report.length.is_multiple_of(DMA_PAGE_SIZE) {
        return Err(Refusal::invalid("the range does not consist of pages"));
    }
    no_wrap(report.iova, report.length)?;
    let bitmap = report.bitmap_bytes();
    if bitmap > u64::from(MAX_DATA) {
        return Err(Refusal::invalid(
            "the bitmap is larger than max_data_xfer_size: ask for less at a time",
        ));
    }
    has_room_for(argsz, size_of::<LoggingReport>() as u64 + bitmap)?;
    Ok(report)
}

/// Parses a read of data: the number of bytes.
pub(super) fn read_data(payload: &[u8]) -> Result<Request<'_>, Refusal> {
    let (raw, _) = front::<MigrationData>(payload)?;
    let size = raw.size.get();
    let needed = size_of::<MigrationData>() as u64 + u64::from(size);
    if u64::from(raw.argsz.get()) < needed {
        return Err(Refusal::invalid("argsz is smaller than the answer"));
    }
    Ok(Request::MigDataRead(size))
}

pub(super) fn write_data(payload: &[u8]) -> Result<Request<'_>, Refusal> {
    let (raw, data) = front::<MigrationData>(payload)?;
    room_for::<MigrationData>(raw.argsz.get())?;
    if raw.size.get() as usize != data.len() {
        return Err(Refusal::invalid("the size is not the length of the data"));
    }
    Ok(Request::MigDataWrite(data))
}
