//! CREATE_UC and DESTROY_UC.

use vrdma_verbs::object::Owner;

use super::destroy::forget_owner;
use super::{Body, Errno, Reply};
use crate::abi::response::Created;
use crate::abi::{request, version};
use crate::adapter::{Adapter, Turn};
use crate::kept::Kind;
use crate::object::context::PageTaken;

pub(super) fn create(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: request::CreateUc = body.parse();
    let page = page_of(request.pfn.get(), adapter);
    let owner = adapter.contexts.create(page).map_err(|taken| match taken {
        PageTaken::NoSuchPage => Errno::Invalid,
        PageTaken::Owned => Errno::Busy,
    })?;
    adapter.clear_doorbells(page);
    adapter.record_context(page, owner);
    Ok(Reply::with(&Created {
        handle: owner.0.into(),
        ..Created::default()
    }))
}

/// The doorbell page for a frame number: BAR 2 is aligned to its size, so the low bits are the page's index. Drivers
/// before version 19 fill only the lower half of the field.
fn page_of(pfn: u64, adapter: &Adapter) -> u32 {
    let pfn = match adapter.driver_version {
        0..version::PFN_64 => pfn & u64::from(u32::MAX),
        _ => pfn,
    };
    (pfn % u64::from(adapter.config.limits.uar_pages)) as u32
}

pub(super) fn destroy(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: request::Context = body.parse();
    let owner = Owner(request.ctx_handle.get());
    if !adapter.contexts.destroy(owner) {
        return Err(Errno::NoEntry);
    }
    let page = adapter.contexts.page_of(owner);
    adapter.forget_record(Kind::Context, page);
    forget_owner(adapter, owner);
    Ok(Reply::none())
}
