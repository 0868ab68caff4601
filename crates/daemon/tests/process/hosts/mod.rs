//! Two daemons on two hosts: network namespaces joined by a cable.
//!
//! ```text
//!   host 0: the test itself          host 1
//!   vrdmad, adapter c0 ── wire ═════ wire ── vrdmad, adapter c1
//!          10.0.0.1     192.0.2.1   192.0.2.2      10.0.0.2
//! ```
//! Sockets in the file system are the same for both hosts, so the test is a client of both daemons.

mod asleep;
mod cable;
mod daemon;
mod flap;
mod flood;
mod multicast;
mod too_long;
mod transfer;

use tempfile::TempDir;

use crate::client::Client;
use daemon::Daemon;
use vrdma_lab::namespace::Namespace;
use vrdma_lab::process::Lifetime;

/// Name of the cable's end on each host.
const INTERFACE: &str = "wire";

/// Medium between the hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Medium {
    Raw,
    Tunnel,
}

/// Both hosts.
struct World {
    daemons: [Daemon; 2],
    _other: Namespace,
    _folder: TempDir,
}

impl World {
    /// Makes both hosts. Called inside of a test's own namespace.
    fn new(medium: Medium) -> Self {
        Self::with_shards(medium, 1)
    }

    /// The same with this number of shards on each host.
    fn with_shards(medium: Medium, shards: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let other = Namespace::create("other", folder.path(), Lifetime::Owned).unwrap();
        cable::join(other.entry());
        let daemons = [0, 1].map(|number: u8| {
            let place = folder.path().join(number.to_string());
            let host = (number == 1).then_some(other.entry());
            let uplink = configuration(medium, number);
            Daemon::start(&place, &format!("shards = {shards}\n{uplink}"), host)
        });
        Self {
            daemons,
            _other: other,
            _folder: folder,
        }
    }

    /// Opens a client on each host.
    fn clients(&self) -> [Client; 2] {
        let [a, b] = &self.daemons;
        [
            Client::open_at(&a.process_socket(), 0),
            Client::open_at(&b.process_socket(), 1),
        ]
    }
}

fn configuration(medium: Medium, number: u8) -> String {
    let ends = ["192.0.2.1", "192.0.2.2"];
    let (ours, theirs) = (ends[usize::from(number)], ends[usize::from(1 - number)]);
    let uplink = match medium {
        Medium::Raw => format!("kind = \"raw\"\ninterface = \"{INTERFACE}\"\n"),
        Medium::Tunnel => format!(
            "kind = \"tunnel\"\nlisten = \"{ours}\"\n[[peer]]\nuplink = \"up\"\naddress = \"{theirs}\"\n"
        ),
    };
    let vni = match medium {
        Medium::Raw => "",
        Medium::Tunnel => "vni = 7\n",
    };
    format!(
        "[[uplink]]\nname = \"up\"\n{uplink}\
         [[portgroup]]\nname = \"blue\"\n{vni}\
         [[adapter]]\nname = \"c{number}\"\nportgroup = \"blue\"\nkind = \"process\"\nip = \"10.0.0.{}\"\n",
        number + 1
    )
}
