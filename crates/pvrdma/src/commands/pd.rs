//! CREATE_PD and DESTROY_PD.

use vrdma_verbs::object::{Owner, PdId};
use vrdma_verbs::saved::Piece;

use super::{Body, Errno, Reply};
use crate::abi::request;
use crate::abi::response::Created;
use crate::adapter::{Adapter, Turn};
use crate::kept::Kind;

pub(super) fn create(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: request::Context = body.parse();
    let owner = Owner(request.ctx_handle.get());
    if !adapter.contexts.contains(owner) {
        return Err(Errno::NoEntry);
    }
    let pd = adapter.core.hca.create_pd(owner)?;
    adapter.record_piece(Kind::Pd, pd.0, Piece::Pd(pd));
    Ok(Reply::with(&Created {
        handle: pd.0.into(),
        ..Created::default()
    }))
}

pub(super) fn destroy(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: request::Handle = body.parse();
    let pd = PdId(request.handle.get());
    adapter.core.hca.destroy_pd(pd)?;
    adapter.forget_record(Kind::Pd, pd.0);
    Ok(Reply::none())
}
