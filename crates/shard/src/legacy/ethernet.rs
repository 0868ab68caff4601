//! What is connected at the ports of the Ethernet: QEMUs, and the host's own interfaces.
//!
//! A descriptor is recorded once it exists, and forgotten before it is closed.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prost::Message;
use vrdma_api::Name;
use vrdma_keep::{Inherited, Record, Records, SlotId};
use vrdma_threads::StreamRecords;

/// The only kind of the area's records.
const PORT: u16 = 1;

#[derive(Clone, PartialEq, Message)]
struct PortRecord {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, tag = "2")]
    descriptor: RawFd,
    /// The stream may have stopped inside a frame.
    #[prost(bool, tag = "3")]
    cut: bool,
    /// Addresses that an interface was made with; `None` for a QEMU.
    #[prost(string, optional, tag = "4")]
    interface: Option<String>,
}

/// The records, and what the worker before has left.
pub(super) struct Ports {
    records: Records,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<String, (SlotId, PortRecord)>,
    left: BTreeMap<String, (PortRecord, OwnedFd)>,
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ports").finish_non_exhaustive()
    }
}

impl Ports {
    /// Takes over the records found, with their descriptors.
    pub(super) fn new(records: Records, found: &[Record], inherited: &mut Inherited) -> Self {
        let mut left = BTreeMap::new();
        for record in found {
            records.remove(record.slot);
            let Ok(port) = PortRecord::decode(&*record.bytes) else {
                continue;
            };
            if let Some(fd) = inherited.claim(port.descriptor).filter(|_| !port.cut) {
                left.insert(port.name.clone(), (port, fd));
            }
        }
        // A worker that follows this one before a port is plugged no longer finds it, and its QEMU connects again.
        records.commit();
        let state = Mutex::new(State {
            left,
            ..State::default()
        });
        Self { records, state }
    }

    // A thread that panicked leaves a map that was changed or was not.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection of a QEMU.
    pub(super) fn take_stream(&self, name: &str) -> Option<OwnedFd> {
        let (port, fd) = self.state().left.remove(name)?;
        port.interface.is_none().then_some(fd)
    }

    /// Returns the interface that was made with these addresses.
    pub(super) fn take_interface(&self, name: &str, addresses: &str) -> Option<OwnedFd> {
        let (port, fd) = self.state().left.remove(name)?;
        (port.interface.as_deref() == Some(addresses)).then_some(fd)
    }

    /// Returns the descriptors that no port has taken, to be closed.
    pub(super) fn take_rest(&self) -> Vec<OwnedFd> {
        let left = std::mem::take(&mut self.state().left);
        left.into_values().map(|(_, fd)| fd).collect()
    }

    pub(super) fn note_interface(&self, name: &Name, device: BorrowedFd<'_>, addresses: &str) {
        self.put(name, device.as_raw_fd(), Some(addresses.to_owned()));
    }

    fn put(&self, name: &Name, descriptor: RawFd, interface: Option<String>) {
        let record = PortRecord {
            name: name.to_string(),
            descriptor,
            cut: false,
            interface,
        };
        let mut state = self.state();
        if let Some((slot, _)) = state.slots.remove(&record.name) {
            self.records.remove(slot);
        }
        match self.records.insert(PORT, 0, &record.encode_to_vec()) {
            Ok(slot) => drop(state.slots.insert(record.name.clone(), (slot, record))),
            Err(full) => {
                tracing::warn!("{name}: its Ethernet will be connected anew after a crash: {full}")
            }
        }
        self.records.commit();
    }

    pub(super) fn forget(&self, name: &Name) {
        if let Some((slot, _)) = self.state().slots.remove(name.as_str()) {
            self.records.remove(slot);
            self.records.commit();
        }
    }
}

impl StreamRecords for Ports {
    fn connected(&self, port: &Name, stream: BorrowedFd<'_>) {
        self.put(port, stream.as_raw_fd(), None);
    }

    fn disconnected(&self, port: &Name) {
        self.forget(port);
    }

    fn cut(&self, port: &Name, is_cut: bool) {
        let mut state = self.state();
        let Some((slot, record)) = state.slots.get_mut(port.as_str()) else {
            return;
        };
        record.cut = is_cut;
        let written = self.records.put(*slot, &record.encode_to_vec());
        debug_assert_eq!(written, Ok(()), "it has a slot for itself");
        self.records.commit();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use vrdma_keep::{Area, Capacity};

    use super::*;

    const ROOM: Capacity = Capacity {
        small: 16,
        large: 1,
    };

    /// Returns what the next worker finds if these descriptors are open.
    fn next(area: &OwnedFd, open: &[&OwnedFd]) -> Ports {
        let (records, found, _) = Records::open(area.as_fd(), |_| 0).unwrap();
        let open = open.iter();
        let open = open.map(|fd| (fd.as_raw_fd(), fd.try_clone().unwrap()));
        Ports::new(records, &found, &mut Inherited::given(open.collect()))
    }

    #[test]
    fn the_next_worker_has_what_was_whole_and_was_not_closed() {
        let area = Area::create(ROOM).unwrap();
        let streams: [OwnedFd; 4] = std::array::from_fn(|_| UnixStream::pair().unwrap().0.into());
        let open: Vec<&OwnedFd> = streams.iter().collect();
        let names = ["whole", "cut", "mended", "gone"].map(|name| name.parse::<Name>().unwrap());
        let ports = next(&area, &open);
        for (name, stream) in names.iter().zip(&streams) {
            ports.connected(name, stream.as_fd());
        }
        ports.cut(&names[1], true);
        ports.cut(&names[2], true);
        ports.cut(&names[2], false);
        ports.disconnected(&names[3]);
        drop(ports);
        let ports = next(&area, &open);
        let taken = names.map(|name| ports.take_stream(name.as_str()).is_some());
        assert_eq!(taken, [true, false, true, false]);
        assert!(next(&area, &open).take_rest().is_empty(), "once");
    }

    #[test]
    fn an_interface_is_taken_with_the_addresses_that_it_has() {
        let area = Area::create(ROOM).unwrap();
        let device: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let name: Name = "host0".parse().unwrap();
        for (addresses, is_it) in [("a", true), ("b", false)] {
            next(&area, &[]).note_interface(&name, device.as_fd(), "a");
            let taken = next(&area, &[&device]).take_interface("host0", addresses);
            assert_eq!(taken.is_some(), is_it, "{addresses}");
        }
    }
}
