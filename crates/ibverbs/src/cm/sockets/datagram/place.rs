//! The address of a datagram socket, and the addresses that it understands.

use core::ffi::c_int;
use std::net::Ipv6Addr;

use super::super::stream::Sizes;
use super::Datagrams;
use super::header::Address;
use super::station::Station;
use crate::cm::abi;
use crate::cm::device;
use crate::cm::identifier::Identifier;
use crate::cm::resolve::{rdma_bind_addr, rdma_listen};
use crate::cm::session;
use crate::cm::socket_address::{from_c, to_c};
use crate::errno::{Errno, Result};
use vrdma_provider::cm::{Endpoint, Offer};

impl Datagrams {
    /// Converts a program's address to one of this socket's family.
    ///
    /// # Safety
    /// `address` points to a socket address.
    pub(in crate::cm::sockets) unsafe fn address(
        &self,
        address: *const libc::sockaddr,
    ) -> Result<Address> {
        // SAFETY: as promised.
        let endpoint = unsafe { from_c(address)? };
        let found = Address::of(&endpoint).ok_or(Errno(libc::EDESTADDRREQ))?;
        let fits = found.endpoint(self.family).is_some();
        fits.then_some(found).ok_or(Errno(libc::EAFNOSUPPORT))
    }

    /// Binds to an address and a port, and is found there from now on.
    ///
    /// # Safety
    /// `address` points to a socket address, and `id` is the socket's.
    pub(in crate::cm::sockets) unsafe fn bind(
        &mut self,
        id: *mut abi::Id,
        address: *const libc::sockaddr,
        sizes: &Sizes,
    ) -> Result<()> {
        // SAFETY: as promised.
        unsafe {
            done(rdma_bind_addr(id, address.cast_mut()))?;
            let local = from_c((&raw const (*id).route.addr.src_storage).cast())?;
            let adapters = match (*id).verbs.is_null() {
                true => device::all()?,
                false => vec![device::of_context((*id).verbs)?],
            };
            for adapter in &adapters {
                let station = Station::open(adapter, sizes)?;
                match self.offer(id, &station) {
                    Ok(()) => self.stations.push(station),
                    // The adapter has come since the identifier was bound.
                    Err(Errno(libc::ENODEV)) => {}
                    Err(error) => return Err(error),
                }
            }
            done(rdma_listen(id, 0))?;
            self.bound = Address::of(&local);
        }
        Ok(())
    }

    fn offer(&self, id: *mut abi::Id, station: &Station) -> Result<()> {
        let offer = Offer {
            // SAFETY: the socket's identifier.
            id: unsafe { Identifier::of(id)? }.number,
            qp_num: station.qpn(),
            qkey: 0,
            adapter: station.adapter()?,
        };
        session::call(&offer).map(drop)
    }

    /// Binds to any address and a free port, unless it is bound.
    pub(in crate::cm::sockets) fn ensure_bound(
        &mut self,
        id: *mut abi::Id,
        sizes: &Sizes,
    ) -> Result<()> {
        if self.bound.is_some() {
            return Ok(());
        }
        let any = Endpoint {
            family: self.family,
            ..Endpoint::default()
        };
        let any = to_c(&any);
        // SAFETY: an address of ours, and the caller's identifier.
        unsafe { self.bind(id, (&raw const any).cast(), sizes) }
    }

    /// Returns the one address that the socket is bound to, if it is one.
    pub(super) fn own_address(&self) -> Option<Address> {
        let is_one = |own: &Address| {
            let address = Ipv6Addr::from(own.gid).to_canonical();
            !address.is_loopback() && !address.is_unspecified()
        };
        self.bound.filter(is_one)
    }

    /// Returns the socket's address as its peer sees it; any address if there is no peer, and no port before it is
    /// bound.
    pub(in crate::cm::sockets) fn name(&self) -> Endpoint {
        let any = Endpoint {
            family: self.family,
            ..Endpoint::default()
        };
        let Some(own) = self.bound else {
            return any;
        };
        let way = self
            .connected
            .and_then(|to| self.peers.get(&to)?.way.as_ref());
        let gid = way.map_or(own.gid, |way| way.own);
        Address { gid, ..own }.endpoint(self.family).unwrap_or(any)
    }

    pub(in crate::cm::sockets) fn peer_name(&self) -> Option<Endpoint> {
        self.connected.and_then(|to| to.endpoint(self.family))
    }
}

fn done(outcome: c_int) -> Result<()> {
    if outcome == 0 {
        Ok(())
    } else {
        Err(Errno::last())
    }
}
