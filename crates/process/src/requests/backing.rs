//! The memory of a region, and how it is reached: by its addresses in the client, as a file that is mapped here, or
//! both.

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_memory::{ClientRegion, FileRegion, PAGE, PartlyMapped, Region, is_in_memory};
use vrdma_provider::message::{Adoption, RegMr, access as bit};
use vrdma_verbs::attr::Access;

use super::Asker;
use super::memory::file_cost;
use crate::kept::PlaceName;
use crate::objects::Mr;
use crate::quota::Kind;
use crate::regions::Reached;

/// A region, its daemon's half, and its record for the next worker.
pub(super) struct Backed {
    pub(super) region: Region,
    pub(super) mr: Mr,
    pub(super) place: PlaceName,
}

/// The bytes of a region that are in its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mapped {
    /// All bytes.
    All {
        /// Bytes between the first mapped byte and the region's first byte.
        lead: u64,
    },
    /// The bytes at these offsets.
    Part(Range<u64>),
}

impl Mapped {
    /// Compares the ranges of region and file. `None`: there is no file, or it is not mapped in a way that allows this.
    pub(crate) fn of(request: &RegMr) -> Option<Self> {
        let file = request.file;
        let start = request.address;
        let end = start.checked_add(request.length)?;
        let file_end = file.address.checked_add(file.length)?;
        if file.length == 0 || !file.address.is_multiple_of(PAGE) {
            None
        } else if file.address <= start && end <= file_end {
            Some(Self::All {
                lead: start - file.address,
            })
        } else if start <= file.address && file_end <= end {
            Some(Self::Part(file.address - start..file_end - start))
        } else {
            None
        }
    }

    /// Offset in the file of the region's first byte, or where it would be.
    fn offset(&self, request: &RegMr) -> u64 {
        match self {
            Self::All { lead } => request.file.offset.wrapping_add(*lead),
            Self::Part(part) => request.file.offset.wrapping_sub(part.start),
        }
    }
}

/// Finds out how the memory of a registration is reached.
pub(super) fn backed(
    asker: &mut Asker<'_>,
    request: &RegMr,
    access: Access,
    fd: Option<OwnedFd>,
) -> Result<Backed, Errno> {
    let adoption = Adoption::from_number(request.adoption).ok_or(Errno::INVAL)?;
    let writable = access.contains(Access::LOCAL_WRITE);
    let may_keep = may_keep(asker)?;
    // A process that goes on after this one would lack a file that was not kept.
    let usable = may_keep || !asker.process.is_recorded();
    let mapped = Mapped::of(request).filter(|_| usable && may_map(asker, request.file.length));
    let client = client_region(asker, request)?;
    let found = fd
        .zip(mapped)
        .and_then(|(fd, mapped)| Some((file_region(request, &mapped, &fd, writable)?, fd, mapped)));
    let (region, file) = match found {
        None => (Region::Client(client), None),
        Some((file, fd, mapped)) => (both(client, file, &mapped), Some((fd, mapped))),
    };
    let known = file.as_ref().map(|(fd, mapped)| (fd, mapped));
    let place = PlaceName::of(asker.owner, request, known, writable);
    let offset = |(fd, mapped): (OwnedFd, Mapped)| (fd, mapped.offset(request));
    let mr = Mr {
        owner: asker.owner,
        mapped: file.as_ref().map_or(0, |_| request.file.length),
        file: file.filter(|_| may_keep).map(offset),
        leaving: None,
        way: way(&region),
        adoption,
        enclosed_in: Some(BTreeSet::new()),
    };
    Ok(Backed { region, mr, place })
}

fn both(client: ClientRegion, file: FileRegion, mapped: &Mapped) -> Region {
    match mapped {
        Mapped::All { .. } => Region::File(file),
        Mapped::Part(part) => {
            let client = client.filled_by_owner(false);
            Region::Partly(PartlyMapped::new(client, file, part.clone()))
        }
    }
}

fn way(region: &Region) -> Reached {
    match region {
        Region::File(_) => Reached::File,
        Region::Partly(_) => Reached::PartlyFile,
        _ => Reached::Addresses,
    }
}

/// Whether to keep a descriptor of a file: for others that reach it directly, and for the next worker.
fn may_keep(asker: &mut Asker<'_>) -> Result<bool, Errno> {
    let is_recorded = asker.process.is_recorded();
    let context = asker.process.context(asker.owner).ok_or(Errno::NOENT)?;
    let has_room = context.holdings.has_room(Kind::Descriptor, 1);
    Ok(has_room && (is_recorded || context.grants.is_some()))
}

/// Whether the quotas have room for a file of that many bytes. Without room, the region is reached by its addresses,
/// which is slower, so nothing is logged.
fn may_map(asker: &mut Asker<'_>, bytes: u64) -> bool {
    let costs = file_cost(bytes);
    let mut costs = costs.iter();
    let holdings = asker.holdings();
    holdings.is_ok_and(|holdings| costs.all(|(kind, count)| holdings.has_room(*kind, *count)))
}

/// Maps the file behind the region, if this can do no harm.
fn file_region(
    request: &RegMr,
    mapped: &Mapped,
    fd: &OwnedFd,
    writable: bool,
) -> Option<FileRegion> {
    let lead = match mapped {
        Mapped::All { lead } => *lead,
        Mapped::Part(_) => 0,
    };
    let (offset, length) = (request.file.offset, request.file.length);
    let region = || FileRegion::new(fd.as_fd(), offset, length, lead, writable).ok();
    is_in_memory(fd).then(region)?
}

/// Whether received messages may be left to the client, which puts them in place when it polls: peers can neither see
/// nor write the region meanwhile. On-demand memory may be absent, and only the daemon's own accesses survive that.
pub(crate) fn is_filled_by_owner(request: &RegMr) -> bool {
    const OF_OTHERS: u32 =
        bit::REMOTE_WRITE | bit::REMOTE_READ | bit::REMOTE_ATOMIC | bit::MW_BIND | bit::ON_DEMAND;
    request.access & OF_OTHERS == 0
}

fn client_region(asker: &mut Asker<'_>, request: &RegMr) -> Result<ClientRegion, Errno> {
    let context = asker.process.context(asker.owner).ok_or(Errno::NOENT)?;
    let memory = Arc::clone(&context.memory);
    let region = ClientRegion::new(memory, request.address, request.length);
    Ok(region.filled_by_owner(is_filled_by_owner(request)))
}

#[cfg(test)]
mod tests {
    use vrdma_provider::message::FileRange;

    use super::*;

    fn mapped(address: u64, length: u64, file: (u64, u64)) -> Option<Mapped> {
        Mapped::of(&RegMr {
            address,
            length,
            file: FileRange {
                offset: 0,
                address: file.0,
                length: file.1,
            },
            ..RegMr::default()
        })
    }

    #[test]
    fn a_file_covers_a_region_or_lies_inside_of_it() {
        let all = |lead| Some(Mapped::All { lead });
        assert_eq!(mapped(4096, 8192, (4096, 8192)), all(0));
        assert_eq!(mapped(4100, 10, (4096, 4096)), all(4));
        assert_eq!(mapped(4100, 10, (0, 8192)), all(4100));
        let part = Mapped::Part(3996..8092);
        assert_eq!(mapped(100, 9000, (4096, 4096)), Some(part));
        for (file, why) in [
            ((0, 4096), "it covers the beginning only"),
            ((8192, 4096), "the end only"),
            ((4096, 0), "nothing"),
            ((4097, 4096), "not in whole pages"),
            ((u64::MAX - 4095, 8192), "it wraps"),
        ] {
            assert_eq!(mapped(100, 9000, file), None, "{why}");
        }
    }
}
