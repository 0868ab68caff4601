//! CREATE_BIND and DESTROY_BIND.

use vrdma_wire::Gid;

use super::errno::require;
use super::{Body, Errno, Reply};
use crate::abi::request::{CreateBind, DestroyBind};
use crate::adapter::{Adapter, Turn};
use crate::capabilities::gid_type_for;

pub(super) fn create(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: CreateBind = body.parse();
    let index = index(request.index.get())?;
    let gid = Gid(request.gid);
    require(request.gid_type == gid_type_for(adapter.driver_version))?;
    adapter.core.hca.bind_gid(index, gid)?;
    adapter.gids.set(index, Some(gid));
    adapter.record_frame();
    Ok(Reply::none())
}

pub(super) fn destroy(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: DestroyBind = body.parse();
    let index = index(request.index.get())?;
    adapter.core.hca.unbind_gid(index)?;
    adapter.gids.set(index, None);
    adapter.record_frame();
    Ok(Reply::none())
}

/// Checks that an index fits a byte, as in work requests; the engine checks it against the table's length.
fn index(index: u32) -> Result<u8, Errno> {
    index.try_into().map_err(|_| Errno::Invalid)
}
