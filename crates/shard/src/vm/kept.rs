//! What another worker needs to go on with a VM, besides its device: the connection to QEMU, guest memory and
//! interrupts, by the numbers of their descriptors, which stay open ([`vrdma_keep`]).
//!
//! A descriptor that a committed record names is closed only after the next commit: otherwise its number might be
//! another's when the record is read.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use prost::Message;
use vrdma_adapter::Journal;
use vrdma_keep::Inherited;
use vrdma_process::{Recorder, Taken};
use vrdma_pvrdma::SavedRecord;
use vrdma_vfio_user::{DmaMap, DmaUnmap, KEPT_DESCRIPTORS, SessionState};

/// Kinds of records. The device has the kinds from 16 to 31.
mod kind {
    pub(super) const CONNECTION: u16 = 40;
    /// The doorbell pages.
    pub(super) const DOORBELLS: u16 = 41;
    /// Guest memory, by a number of this module.
    pub(super) const MEMORY: u16 = 42;
    /// An interrupt's eventfd, by vector.
    pub(super) const INTERRUPT: u16 = 43;
    /// The kinds that end with the connection.
    pub(super) const OF_A_CONNECTION: [u16; 3] = [CONNECTION, MEMORY, INTERRUPT];
}

#[derive(Clone, PartialEq, Message)]
struct ConnectionRecord {
    #[prost(int32, repeated, tag = "1")]
    descriptors: Vec<RawFd>,
    #[prost(bytes = "vec", tag = "2")]
    state: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct DescriptorRecord {
    #[prost(int32, tag = "1")]
    number: RawFd,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct MemoryRecord {
    #[prost(int32, tag = "1")]
    descriptor: RawFd,
    #[prost(uint64, tag = "2")]
    iova: u64,
    #[prost(uint64, tag = "3")]
    size: u64,
    #[prost(uint64, tag = "4")]
    offset: u64,
    #[prost(bool, tag = "5")]
    readable: bool,
    #[prost(bool, tag = "6")]
    writable: bool,
}

/// The descriptors that records name.
#[derive(Default)]
pub(super) struct Kept {
    doorbells: Option<OwnedFd>,
    connection: Vec<RawFd>,
    /// By first address.
    memory: BTreeMap<u64, (u32, OwnedFd)>,
    interrupts: BTreeMap<u32, OwnedFd>,
    /// Descriptors that the last commit names, and the next one does not.
    leaving: Vec<OwnedFd>,
}

/// The error that records could not be written: no worker can go on with this VM.
pub(super) struct NoRoom;

impl Kept {
    pub(super) fn doorbells(
        &mut self,
        journal: &mut dyn Journal,
        fd: Option<OwnedFd>,
    ) -> Result<(), NoRoom> {
        self.doorbells = fd;
        let Some(fd) = &self.doorbells else {
            return Ok(());
        };
        let number = fd.as_raw_fd();
        put(journal, kind::DOORBELLS, 0, &DescriptorRecord { number })
    }

    pub(super) fn connected(&mut self, descriptors: &[BorrowedFd<'_>]) {
        self.connection = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    }

    pub(super) fn state(
        &self,
        journal: &mut dyn Journal,
        state: &SessionState,
    ) -> Result<(), NoRoom> {
        let record = ConnectionRecord {
            descriptors: self.connection.clone(),
            state: state.encode(),
        };
        put(journal, kind::CONNECTION, 0, &record)
    }

    pub(super) fn mapped(
        &mut self,
        journal: &mut dyn Journal,
        map: DmaMap,
        fd: OwnedFd,
    ) -> Result<(), NoRoom> {
        let used = self.memory.values().map(|(id, _)| id + 1).max();
        let id = used.unwrap_or(0);
        let record = MemoryRecord {
            descriptor: fd.as_raw_fd(),
            iova: map.iova,
            size: map.size,
            offset: map.offset,
            readable: map.readable,
            writable: map.writable,
        };
        self.memory.insert(map.iova, (id, fd));
        put(journal, kind::MEMORY, id, &record)
    }

    pub(super) fn unmapped(&mut self, journal: &mut dyn Journal, unmap: DmaUnmap) {
        let range = match unmap {
            DmaUnmap::All => 0..=u64::MAX,
            DmaUnmap::Range { iova, size } => iova..=iova.saturating_add(size - 1),
        };
        let unmapped: Vec<u64> = self.memory.range(range).map(|(iova, _)| *iova).collect();
        for iova in unmapped {
            if let Some((id, fd)) = self.memory.remove(&iova) {
                journal.forget(kind::MEMORY, id);
                self.leaving.push(fd);
            }
        }
    }

    /// Records the eventfd that is wired to a vector; `None` unwires it.
    pub(super) fn wired(
        &mut self,
        journal: &mut dyn Journal,
        vector: u32,
        fd: Option<OwnedFd>,
    ) -> Result<(), NoRoom> {
        let record = fd.as_ref().map(|fd| DescriptorRecord {
            number: fd.as_raw_fd(),
        });
        let old = match fd {
            Some(fd) => self.interrupts.insert(vector, fd),
            None => self.interrupts.remove(&vector),
        };
        self.leaving.extend(old);
        match record {
            Some(record) => put(journal, kind::INTERRUPT, vector, &record),
            None => {
                journal.forget(kind::INTERRUPT, vector);
                Ok(())
            }
        }
    }

    /// Forgets what was QEMU's. Commit before its socket is closed.
    pub(super) fn disconnected(&mut self, journal: &mut dyn Journal) {
        kind::OF_A_CONNECTION
            .iter()
            .for_each(|kind| journal.forget_all(*kind));
        self.connection.clear();
        let memory = std::mem::take(&mut self.memory).into_values();
        self.leaving.extend(memory.map(|(_, fd)| fd));
        let interrupts = std::mem::take(&mut self.interrupts);
        self.leaving.extend(interrupts.into_values());
    }

    /// Closes descriptors that only the records of before named.
    pub(super) fn committed(&mut self) {
        self.leaving.clear();
    }

    /// Takes over what the worker before had recorded.
    pub(super) fn resume(memory: Vec<Mapped>, interrupts: BTreeMap<u32, OwnedFd>) -> Self {
        let memory = memory.into_iter();
        Self {
            memory: memory.map(|it| (it.map.iova, (it.id, it.fd))).collect(),
            interrupts,
            ..Self::default()
        }
    }
}

/// Guest memory that was mapped.
pub(super) struct Mapped {
    id: u32,
    pub(super) map: DmaMap,
    pub(super) fd: OwnedFd,
}

/// A VM as the worker before left it.
pub(crate) struct Past {
    pub(super) connection: [OwnedFd; KEPT_DESCRIPTORS],
    pub(super) state: SessionState,
    pub(super) device: ResumedDevice,
}

/// The device's part, with what QEMU gave it.
pub(super) struct ResumedDevice {
    pub(super) recorder: Recorder,
    pub(super) device: Vec<SavedRecord>,
    pub(super) doorbells: Option<OwnedFd>,
    pub(super) memory: Vec<Mapped>,
    pub(super) interrupts: BTreeMap<u32, OwnedFd>,
}

impl Past {
    /// Claims the descriptors that its records name. `None` if QEMU was not connected, or something is missing.
    pub(crate) fn claim(taken: Taken, inherited: &mut Inherited) -> Option<Self> {
        let Taken { records, recorder } = taken;
        let mut connection = None;
        let (mut doorbells, mut memory) = (None, Vec::new());
        let (mut interrupts, mut device) = (BTreeMap::new(), Vec::new());
        for (kind, id, bytes) in records {
            match kind {
                kind::CONNECTION => connection = Some(ConnectionRecord::decode(&*bytes).ok()?),
                kind::DOORBELLS => doorbells = Some(claim(&bytes, inherited)?),
                kind::INTERRUPT => drop(interrupts.insert(id, claim(&bytes, inherited)?)),
                kind::MEMORY => {
                    let record = MemoryRecord::decode(&*bytes).ok()?;
                    let fd = inherited.claim(record.descriptor)?;
                    let map = record.map();
                    memory.push(Mapped { id, map, fd });
                }
                _ => device.push(SavedRecord { kind, id, bytes }),
            }
        }
        let connection = connection?;
        let claimed = connection.descriptors.iter();
        let claimed: Option<Vec<OwnedFd>> = claimed.map(|it| inherited.claim(*it)).collect();
        Some(Self {
            connection: claimed?.try_into().ok()?,
            state: SessionState::decode(&connection.state).ok()?,
            device: ResumedDevice {
                recorder,
                device,
                doorbells,
                memory,
                interrupts,
            },
        })
    }
}

impl MemoryRecord {
    fn map(&self) -> DmaMap {
        DmaMap {
            iova: self.iova,
            size: self.size,
            offset: self.offset,
            readable: self.readable,
            writable: self.writable,
        }
    }
}

fn claim(bytes: &[u8], inherited: &mut Inherited) -> Option<OwnedFd> {
    inherited.claim(DescriptorRecord::decode(bytes).ok()?.number)
}

fn put(journal: &mut dyn Journal, kind: u16, id: u32, record: &impl Message) -> Result<(), NoRoom> {
    let has_room = journal.put(kind, id, &record.encode_to_vec());
    has_room.then_some(()).ok_or(NoRoom)
}

/// Returns the descriptors that a record of a VM names.
pub(crate) fn descriptors(kind: u16, bytes: &[u8]) -> Vec<RawFd> {
    let numbers = match kind {
        kind::CONNECTION => ConnectionRecord::decode(bytes).map(|it| it.descriptors),
        kind::DOORBELLS | kind::INTERRUPT => {
            DescriptorRecord::decode(bytes).map(|it| vec![it.number])
        }
        kind::MEMORY => MemoryRecord::decode(bytes).map(|it| vec![it.descriptor]),
        _ => return Vec::new(),
    };
    numbers.unwrap_or_default()
}
