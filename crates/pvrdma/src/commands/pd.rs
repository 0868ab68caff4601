//! CREATE_PD and DESTROY_PD.

use vrdma_verbs::object::{Owner, PdId};

use super::{Body, Errno, Reply};
use crate::abi::request;
use crate::abi::response::Created;
use crate::adapter::{Adapter, Turn};

pub(super) fn create(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: request::Context = body.parse();
    let owner = Owner(request.ctx_handle.get());
    if !adapter.contexts.contains(owner) {
        return Err(Errno::NoEntry);
    }
    let pd = adapter.core.hca.create_pd(owner)?;
    Ok(Reply::with(&Created {
        handle: pd.0.into(),
        ..Created::default()
    }))
}

pub(super) fn destroy(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: request::Handle = body.parse();
    adapter.core.hca.destroy_pd(PdId(request.handle.get()))?;
    Ok(Reply::none())
}
