//! The GID table.

use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::request::{CreateBind, DestroyBind};
use vrdma_wire::Gid;

use crate::command::CommandError;
use crate::guest::Guest;

/// Constants that the driver uses.
const MTU: u32 = 1024;
const NO_VLAN: u32 = 0xfff;

impl Guest {
    /// The command that binds a GID.
    pub fn bind_request(&self, index: u32, gid: Gid) -> CreateBind {
        CreateBind {
            mtu: MTU.into(),
            vlan: NO_VLAN.into(),
            index: index.into(),
            gid: gid.0,
            gid_type: self.driver().caps.gid_types,
            reserved: [0; 3],
        }
    }

    /// Binds a GID.
    pub fn bind_gid(&mut self, index: u32, gid: Gid) -> Result<(), CommandError> {
        let request = self.bind_request(index, gid);
        self.tell(Command::CreateBind, &request)
    }

    /// Removes a GID.
    pub fn unbind_gid(&mut self, index: u32, gid: Gid) -> Result<(), CommandError> {
        let request = DestroyBind {
            index: index.into(),
            gid: gid.0,
            reserved: [0; 4],
        };
        self.tell(Command::DestroyBind, &request)
    }
}
