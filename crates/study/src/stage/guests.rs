//! Two virtual machines.

use anyhow::Result;
use vrdma_lab::guest::Kind;
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};
use vrdma_lab::place::Place;
use vrdma_lab::wire::WireConfig;

use super::{Programs, Stage};
use crate::cell::{Endpoint, Placement};

pub(super) struct Guests {
    pair: Pair,
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
            ..PairConfig::new(network)
        };
        Ok(Self {
            pair: Pair::start(&config)?,
        })
    }
}

impl Stage for Guests {
    fn places(&self, _endpoint: Endpoint) -> [&dyn Place; 2] {
        [Side::A, Side::B].map(|side| self.pair.guest(side).control() as &dyn Place)
    }

    fn logs(&self) -> String {
        self.pair.logs()
    }
}
