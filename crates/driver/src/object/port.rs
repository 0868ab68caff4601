//! Queries about the port.

use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::request::{QueryPkey, QueryPort};
use vrdma_pvrdma::abi::response::{Pkey, PortAttributes};

use crate::command::CommandError;
use crate::guest::Guest;

impl Guest {
    /// Queries the attributes of a port; only port 1 exists.
    pub fn query_port(&mut self, port: u8) -> Result<PortAttributes, CommandError> {
        let request = QueryPort {
            port,
            reserved: [0; 7],
        };
        self.ask(Command::QueryPort, &request)
    }

    /// Queries a partition key.
    pub fn query_pkey(&mut self, port: u8, index: u8) -> Result<u16, CommandError> {
        let request = QueryPkey {
            port,
            index,
            reserved: [0; 6],
        };
        let answer: Pkey = self.ask(Command::QueryPkey, &request)?;
        Ok(answer.pkey.get())
    }
}
