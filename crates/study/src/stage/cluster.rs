//! More than two virtual machines, or larger ones.

use std::cell::RefCell;

use anyhow::Result;
use vrdma_lab::daemon::Daemon;
use vrdma_lab::guest::Guest;
use vrdma_lab::pair::{Cluster, ClusterConfig};
use vrdma_lab::place::Place;

use super::guests::{WORDS, put};
use super::{Programs, Stage};
use crate::cell::{Endpoint, Setting};
use crate::programs::Own;
use crate::room::guest_mib;

pub(super) struct Clustered {
    cluster: Cluster,
    tenants: usize,
    /// Our programs that all guests have.
    ready: RefCell<Vec<Own>>,
}

impl Clustered {
    pub(super) fn start(
        tenants: u8,
        nodes: u8,
        processors: u8,
        programs: &Programs,
    ) -> Result<Self> {
        let config = ClusterConfig {
            program: programs.daemon.clone(),
            tenants,
            guests: nodes,
            processors: processors.into(),
            memory_mib: guest_mib(processors),
        };
        Ok(Self {
            cluster: Cluster::start(&config)?,
            tenants: tenants.into(),
            ready: RefCell::default(),
        })
    }

    fn guests(&self) -> impl Iterator<Item = &Guest> {
        (0..self.tenants).flat_map(|tenant| self.cluster.guests(tenant))
    }
}

impl Stage for Clustered {
    /// The first guest and the last, which are the same if there is only one.
    fn places(&self, _endpoint: Endpoint, tenant: u8) -> [&dyn Place; 2] {
        let guests = self.cluster.guests(tenant.into());
        [&guests[0], &guests[guests.len() - 1]].map(|guest| guest.control() as &dyn Place)
    }

    fn prepare(&self, _setting: Setting, _tenant: u8, own: Own) -> Result<String> {
        if !self.ready.borrow().contains(&own) {
            put(own, self.guests())?;
            self.ready.borrow_mut().push(own);
        }
        Ok(WORDS.to_owned())
    }

    fn daemons(&self) -> Vec<&Daemon> {
        vec![self.cluster.daemon()]
    }

    fn logs(&self) -> String {
        self.cluster.logs()
    }
}
