//! Two virtual machines.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use vrdma_lab::daemon::Daemon;
use vrdma_lab::guest::{Guest, Kind};
use vrdma_lab::image::Image;
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};
use vrdma_lab::place::Place;
use vrdma_lab::wire::WireConfig;

use super::{Programs, Stage, openfoam};
use crate::cell::{Endpoint, Placement, Setting, Transport};
use crate::hardware::{Hardware, Lease};
use crate::programs::Own;

/// Memory of a guest: eight MPI ranks with UCX need more than the usual 512.
const MEMORY_MIB: u32 = 1024;

/// The folder of programs in guests.
const FOLDER: &str = "/root";

/// Shell commands before a program of ours in any guest.
pub(super) const WORDS: &str = "PROGRAMS=/root; DEV=$(ls /sys/class/infiniband); ";

pub(super) struct Guests {
    pair: Pair,
    /// Our programs that both guests have.
    ready: RefCell<Vec<Own>>,
    /// The lent functions; ended after the guests.
    _lease: Option<Lease>,
}

impl Guests {
    pub(super) fn start(kind: Kind, placement: Placement, programs: &Programs) -> Result<Self> {
        let program = programs.daemon.clone();
        let network = match placement {
            Placement::OneHost => Network::Daemon(program),
            Placement::TwoHosts => Network::Wire {
                program,
                wire: WireConfig::default(),
            },
        };
        let config = PairConfig {
            kinds: [kind; 2],
            memory_mib: MEMORY_MIB,
            ..PairConfig::new(network)
        };
        Ok(Self {
            pair: Pair::start(&config)?,
            ready: RefCell::default(),
            _lease: None,
        })
    }

    /// Guests with functions of the host, which gets them back afterwards.
    pub(super) fn lent(transport: Transport) -> Result<Self> {
        let hardware = Hardware::default();
        let image = Image::ensure()?;
        let lease = hardware.lend(transport)?;
        for address in lease.addresses() {
            hardware.guests_drive(address, &modules(&image)?)?;
        }
        let kind = match transport {
            Transport::RxeSriov => Kind::Rxe,
            _ => Kind::Hca,
        };
        let addresses = lease.addresses().map(ToString::to_string);
        let config = PairConfig {
            kinds: [kind; 2],
            ..PairConfig::new(Network::Lent(addresses))
        };
        Ok(Self {
            pair: Pair::start(&config)?,
            ready: RefCell::default(),
            _lease: Some(lease),
        })
    }
}

/// The modules of the guests' kernel.
fn modules(image: &Image) -> Result<PathBuf> {
    let kernels = fs::read_dir(image.root("lib/modules"))?;
    let kernel = kernels
        .flatten()
        .next()
        .context("the guests' image has no modules")?;
    Ok(kernel.path())
}

impl Stage for Guests {
    fn places(&self, _endpoint: Endpoint, _tenant: u8) -> [&dyn Place; 2] {
        [Side::A, Side::B].map(|side| self.pair.guest(side).control() as &dyn Place)
    }

    fn prepare(&self, _setting: Setting, _tenant: u8, own: Own) -> Result<String> {
        if !self.ready.borrow().contains(&own) {
            put(own, [Side::A, Side::B].map(|side| self.pair.guest(side)))?;
            self.ready.borrow_mut().push(own);
        }
        Ok(WORDS.to_owned())
    }

    fn daemons(&self) -> Vec<&Daemon> {
        self.pair.daemons().iter().collect()
    }

    fn logs(&self) -> String {
        self.pair.logs()
    }
}

/// Compiles a program of ours and copies it into guests.
pub(super) fn put<'a>(own: Own, guests: impl IntoIterator<Item = &'a Guest>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = fs::read(own.build(folder.path())?)?;
    let path = format!("{FOLDER}/{}", own.name());
    let solver = (own == Own::Cavity).then(openfoam::bundle).transpose()?;
    for guest in guests {
        guest.put(&path, "755", &program)?;
        if let Some(solver) = &solver {
            openfoam::install(guest, solver)?;
        }
    }
    Ok(())
}
