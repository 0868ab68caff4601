//! A guest and programs of its host: both are adapters of one port group, and each can be the server.

use std::fs;

use anyhow::Result;
use vrdma_lab::pair::{HOST_STACK, Mixed, Side};
use vrdma_lab::place::{Local, Place};

use super::Stage;
use super::preload::{library, preload_at};
use super::remains::Remains;
use crate::counters;

/// Fields are in the order in which they must end.
pub(super) struct GuestAndHost {
    host: Local,
    mixed: Mixed,
    remains: Remains,
}

impl GuestAndHost {
    pub(super) fn start() -> Result<Self> {
        let program = crate::lab::daemon(true)?;
        let library = library()?;
        let mixed = Mixed::start(&program)?;
        let remains = Remains::of_idle(mixed.daemon())?;
        let addresses = [Side::A, Side::B].map(Side::address);
        let mut preload = preload_at(mixed.host(), Side::B, mixed.run_dir(), &library, addresses);
        preload
            .variables
            .push(("H".to_owned(), HOST_STACK.to_string()));
        let output = mixed.run_dir().join("host");
        fs::create_dir(&output)?;
        let (socket, vrdma) = (mixed.daemon().control_socket(), remains.vrdma());
        let listens = move || counters::listens(&socket, &vrdma, Side::B.name());
        Ok(Self {
            host: Local::new(&output, preload.process()).listening(listens),
            mixed,
            remains,
        })
    }

    /// Server and client.
    pub(super) fn guest_serves(&self) -> [&dyn Place; 2] {
        [self.mixed.guest().control(), &self.host]
    }

    /// Server and client.
    pub(super) fn host_serves(&self) -> [&dyn Place; 2] {
        [&self.host, self.mixed.guest().control()]
    }
}

impl Stage for GuestAndHost {
    fn settles(&self) -> Result<()> {
        self.remains.settle(self.mixed.daemon())
    }

    fn logs(&self) -> String {
        self.mixed.logs() + &self.remains.counters(self.mixed.daemon())
    }
}
