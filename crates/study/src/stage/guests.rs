//! Two virtual machines.

use std::cell::RefCell;
use std::fs;

use anyhow::Result;
use vrdma_lab::guest::Kind;
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};
use vrdma_lab::place::Place;
use vrdma_lab::wire::WireConfig;

use super::{Programs, Stage};
use crate::cell::{Endpoint, Placement};
use crate::programs::Own;

/// Eight MPI ranks with UCX are more than the usual 512 hold.
const MEMORY_MIB: u32 = 1024;

/// Of the guests.
const FOLDER: &str = "/root";

pub(super) struct Guests {
    pair: Pair,
    /// Programs of ours that both have.
    ready: RefCell<Vec<Own>>,
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
        })
    }
}

impl Stage for Guests {
    fn places(&self, _endpoint: Endpoint) -> [&dyn Place; 2] {
        [Side::A, Side::B].map(|side| self.pair.guest(side).control() as &dyn Place)
    }

    fn prepare(&self, _endpoint: Endpoint, own: Own) -> Result<String> {
        if !self.ready.borrow().contains(&own) {
            let folder = tempfile::tempdir()?;
            let program = fs::read(own.build(folder.path())?)?;
            for side in [Side::A, Side::B] {
                let path = format!("{FOLDER}/{}", own.name());
                self.pair.guest(side).put(&path, "755", &program)?;
            }
            self.ready.borrow_mut().push(own);
        }
        Ok(format!(
            "PROGRAMS={FOLDER}; DEV=$(ls /sys/class/infiniband); "
        ))
    }

    fn logs(&self) -> String {
        self.pair.logs()
    }
}
