//! The configuration file: TOML, read once at start, checked as a whole before anything is touched.
//!
//! ```toml
//! [daemon]
//! socket = "/run/vrdma/vrdmad.sock"
//! run_dir = "/run/vrdma"
//! cores = "2-5"                 # one shard of the data path on each, alone; or shards = 4
//! poll = "always"               # or "adaptive", the default
//! trust_own_user = false        # true: containers of the daemon's own user are as fast as its other programs
//! userfaultfd = true            # programs get /dev/userfaultfd; not those of a daemon of root without this
//!
//! [migration]                   # contexts of VMs that migrate go from daemon to daemon, not through the orchestrator
//! listen = "192.0.2.1:4793"
//! key = "/etc/vrdma/migration.key"
//!
//! [[portgroup]]
//! name = "blue"
//! vlan = 10                     # tag on raw uplinks
//! vni = 5010                    # VXLAN network in tunnels; the VLAN's number without it
//! allow_roce_frames = false     # true: guests' own Ethernet cards may send RoCEv2
//! weight = 2                    # share of turns of its adapters together, beside other port groups
//!
//! [[uplink]]
//! name = "up0"
//! kind = "tunnel"               # or "raw", with interface = "eth1"
//! listen = "192.0.2.1:4789"
//! key = "/etc/vrdma/up0.key"    # seals frames to its peers; a peer may have a key of its own
//!
//! [[peer]]
//! uplink = "up0"
//! address = "192.0.2.2:4789"
//! stations = ["52:54:00:00:00:02"]   # all that may be behind it; any if left out
//! vnis = [5010]                 # all networks that it takes part in; those of all port groups if left out
//! any_port = false              # true: it sends from ports other than that of `address`
//!
//! [[adapter]]
//! name = "vm1"
//! portgroup = "blue"
//! mac = "52:54:00:00:00:01"
//! doorbells = "mapped"
//!
//! [[adapter]]
//! name = "c1"
//! portgroup = "blue"
//! kind = "process"
//! ip = "10.0.0.5"
//! limit_out = "10gbit"          # most that it sends; limit_in, limit_out_ops, limit_in_ops
//! guarantee_out = "2gbit"       # what it can send whatever others do; also guarantee_in, guarantee_out_ops,
//! ..._in_ops
//! weight = 3                    # share of its turns, beside others of its port group
//! users = ["alice", 1001]       # users that may use it besides the daemon's own user
//! ```

mod defaults;
mod error;
mod file;
mod migration;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::Spanned;
use vrdma_api::{Origin, paths};

pub use defaults::{Environment, default_file};
pub use error::ConfigError;

use crate::inventory::{Field, Inventory};
use crate::spec::{AdapterSpec, MigrationSpec, ShardOptions, UplinkSpec};
use crate::{cores, socket_path};
use error::Source;
use file::{AdapterTable, DaemonTable, PeerTable, PortGroupTable, Tables, UplinkTable};

/// Largest file that is read: room for as many adapters as there may be, with 500 bytes of keys and comments each.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Most shards: each pair of them has rings of some hundred kilobytes.
const SHARDS_MAX: u16 = 64;

/// The daemon's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// Where the control API listens.
    pub socket: PathBuf,
    /// Folder of the adapters' sockets.
    pub run_dir: PathBuf,
    /// How the shards run.
    pub shards: ShardOptions,
    /// Whether the daemon gives up the rights that it does not need.
    pub sandbox: bool,
    /// Whether a keeper starts the daemon again when it crashes, so that clients of process adapters go on.
    pub supervise: bool,
    /// How contexts of VMs are sent to and received from other daemons, if the daemons do that themselves.
    pub migration: Option<MigrationSpec>,
    /// Port groups, adapters and uplinks.
    pub inventory: Inventory,
    /// The uplinks, for the data path.
    pub uplinks: Vec<UplinkSpec>,
    /// The adapters, for the data path.
    pub adapters: Vec<AdapterSpec>,
}

impl Config {
    /// Reads and checks `file`; without one, an empty inventory in the default run folder.
    pub fn load(file: Option<&Path>, run_dir: &Path) -> Result<Self, ConfigError> {
        let Some(path) = file else {
            return Self::from_text(Path::new("the defaults"), "", run_dir).map(|config| Self {
                file: None,
                ..config
            });
        };
        let text = read(path).map_err(|error| ConfigError::unreadable(path, &error))?;
        Self::from_text(path, &text, run_dir)
    }

    /// Checks the text of a file; `path` is for its errors.
    pub fn from_text(path: &Path, text: &str, run_dir: &Path) -> Result<Self, ConfigError> {
        let source = Source { path, text };
        let tables: Tables = toml::from_str(text).map_err(|error| source.toml(&error))?;
        let run_dir = folder(&source, tables.daemon.run_dir.as_ref(), run_dir)?;
        let socket = control_socket(&source, tables.daemon.socket.as_ref(), &run_dir)?;
        let shards = shards(&source, &tables.daemon)?;
        let migration = tables.migration.as_ref();
        let migration = migration.map(|table| migration::spec(&source, table));
        let mut inventory = Inventory::new(&run_dir, shards.cores.len() as u16);
        for table in &tables.portgroup {
            add_portgroup(&source, &mut inventory, table)?;
        }
        let uplinks = tables
            .uplink
            .iter()
            .map(|table| add_uplink(&source, &mut inventory, table));
        let uplinks = uplinks.collect::<Result<_, _>>()?;
        for table in &tables.peer {
            add_peer(&source, &mut inventory, table)?;
        }
        let adapters = tables
            .adapter
            .iter()
            .map(|table| add_adapter(&source, &mut inventory, table));
        let adapters = adapters.collect::<Result<_, _>>()?;
        Ok(Self {
            file: Some(path.to_owned()),
            socket,
            run_dir,
            shards,
            sandbox: tables.daemon.sandbox.unwrap_or(true),
            supervise: tables.daemon.supervise.unwrap_or(false),
            migration: migration.transpose()?,
            inventory,
            uplinks,
            adapters,
        })
    }
}

/// Reads the file. A folder or device in its place must neither hang the daemon nor fill its memory.
fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > FILE_BYTES_MAX {
        let most = FILE_BYTES_MAX >> 20;
        return Err(io::Error::other(format!(
            "it is larger than {most} MiB, which no configuration is"
        )));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn folder(
    source: &Source<'_>,
    given: Option<&Spanned<PathBuf>>,
    default: &Path,
) -> Result<PathBuf, ConfigError> {
    given.map_or_else(|| Ok(default.to_owned()), |given| absolute(source, given))
}

fn control_socket(
    source: &Source<'_>,
    given: Option<&Spanned<PathBuf>>,
    run_dir: &Path,
) -> Result<PathBuf, ConfigError> {
    let path = match given {
        Some(given) => absolute(source, given)?,
        None => run_dir.join(paths::SOCKET_FILE),
    };
    let place = given.map_or(0..0, Spanned::span);
    socket_path::check_length(&path).map_err(|sentence| source.at(place, &sentence))?;
    Ok(path)
}

/// Checks that a path is absolute. QEMU runs in another folder than the daemon, so a relative path would name two
/// places.
fn absolute(source: &Source<'_>, given: &Spanned<PathBuf>) -> Result<PathBuf, ConfigError> {
    let path = given.get_ref();
    if path.is_absolute() {
        return Ok(path.clone());
    }
    Err(source.at(
        given.span(),
        &format!("{path:?} is not an absolute path; begin it with a slash"),
    ))
}

fn shards(source: &Source<'_>, table: &DaemonTable) -> Result<ShardOptions, ConfigError> {
    let poll = table.poll.unwrap_or_default();
    let trusts_own_user = table.trust_own_user.unwrap_or_default();
    // Root may open the device even if other users may not; another user only if the administrator has allowed it.
    let hands_out_userfaultfd = table
        .userfaultfd
        .unwrap_or_else(|| !rustix::process::geteuid().is_root());
    let count = table.shards.as_ref();
    let cores = table.cores.as_ref().map(|given| {
        let cores = cores::parse(given.get_ref());
        cores.map_err(|sentence| source.at(given.span(), &sentence))
    });
    let Some(cores) = cores.transpose()? else {
        let count = count.map(|given| shard_count(source, given)).transpose()?;
        let cores = vec![None; usize::from(count.unwrap_or(1))];
        return Ok(ShardOptions {
            cores,
            poll,
            trusts_own_user,
            hands_out_userfaultfd,
        });
    };
    if let Some(given) = count.filter(|given| *given.get_ref() != cores.len() as i64) {
        let sentence = format!(
            "`cores` names {}, and each has one shard; leave `shards` out",
            cores.len()
        );
        return Err(source.at(given.span(), &sentence));
    }
    let cores = cores.into_iter().map(Some).collect();
    Ok(ShardOptions {
        cores,
        poll,
        trusts_own_user,
        hands_out_userfaultfd,
    })
}

fn shard_count(source: &Source<'_>, given: &Spanned<i64>) -> Result<u16, ConfigError> {
    let count = u16::try_from(*given.get_ref()).ok();
    let count = count.filter(|count| (1..=SHARDS_MAX).contains(count));
    count.ok_or_else(|| {
        let sentence = format!("a daemon has 1 to {SHARDS_MAX} shards");
        source.at(given.span(), &sentence)
    })
}

fn add_portgroup(
    source: &Source<'_>,
    inventory: &mut Inventory,
    table: &PortGroupTable,
) -> Result<(), ConfigError> {
    let added = inventory.add_portgroup(&table.request(), Origin::Config);
    added.map(drop).map_err(|refusal| {
        let span = match refusal.field {
            Field::Vlan => table.vlan.as_ref().map(Spanned::span),
            Field::Vni => table.vni.as_ref().map(Spanned::span),
            Field::Users => table.users.as_ref().map(Spanned::span),
            Field::Groups => table.groups.as_ref().map(Spanned::span),
            Field::Guarantee(which) => table.guarantee_span(which),
            _ => None,
        };
        source.at(span.unwrap_or(table.name.span()), &refusal.to_string())
    })
}

fn add_uplink(
    source: &Source<'_>,
    inventory: &mut Inventory,
    table: &UplinkTable,
) -> Result<UplinkSpec, ConfigError> {
    inventory
        .add_uplink(&table.request(), Origin::Config)
        .map_err(|refusal| {
            let span = match refusal.field {
                Field::Kind => Some(table.kind.span()),
                Field::Interface => table.interface.as_ref().map(Spanned::span),
                Field::Listen => table.listen.as_ref().map(Spanned::span),
                Field::Key => table.key.as_ref().map(Spanned::span),
                Field::Faults => table.faults.as_ref().map(Spanned::span),
                _ => None,
            };
            source.at(span.unwrap_or(table.name.span()), &refusal.to_string())
        })
}

fn add_peer(
    source: &Source<'_>,
    inventory: &mut Inventory,
    table: &PeerTable,
) -> Result<(), ConfigError> {
    let added = inventory.add_peer(&table.request(), Origin::Config);
    added.map(drop).map_err(|refusal| {
        let span = match refusal.field {
            Field::Address => Some(table.address.span()),
            Field::Key => table.key.as_ref().map(Spanned::span),
            Field::Stations => table.stations.as_ref().map(Spanned::span),
            _ => None,
        };
        source.at(span.unwrap_or(table.uplink.span()), &refusal.to_string())
    })
}

fn add_adapter(
    source: &Source<'_>,
    inventory: &mut Inventory,
    table: &AdapterTable,
) -> Result<AdapterSpec, ConfigError> {
    inventory
        .add_adapter(&table.request(), Origin::Config)
        .map_err(|refusal| {
            let span = match refusal.field {
                Field::Mac => table.mac.as_ref().map(Spanned::span),
                Field::Ip => table.ip.as_ref().map(Spanned::span),
                Field::PortGroup => Some(table.portgroup.span()),
                Field::Shard => table.shard.as_ref().map(Spanned::span),
                Field::Limit => table.limit_span(),
                Field::Guarantee(which) => table.guarantee_span(which),
                Field::Users => table.users.as_ref().map(Spanned::span),
                Field::Groups => table.groups.as_ref().map(Spanned::span),
                _ => None,
            };
            source.at(span.unwrap_or(table.name.span()), &refusal.to_string())
        })
}

#[cfg(test)]
mod tests;
