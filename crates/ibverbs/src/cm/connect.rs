//! Connecting, accepting, rejecting and disconnecting.

use core::ffi::{c_int, c_uint, c_void};

use vrdma_provider::cm::{
    Accept, Connect, ConnectionParameters, Disconnect, Established, PrivateData, Reject,
};

use super::abi;
use super::event::complete;
use super::identifier::{Identifier, MOST};
use super::qp_state;
use super::session;
use crate::errno::{self, Errno, Result};

/// `IBV_EVENT_COMM_EST`.
const COMMUNICATION_ESTABLISHED: c_uint = 4;

/// Retries, for calls without parameters.
const RETRIES: u8 = 7;

/// # Safety
/// `data` points to that many bytes.
unsafe fn private(data: *const c_void, length: u8) -> Result<PrivateData> {
    if data.is_null() {
        return Ok(PrivateData::default());
    }
    // SAFETY: as promised.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length.into()) };
    PrivateData::new(bytes).ok_or(Errno(libc::EINVAL))
}

/// Returns the parameters that a program gives, or the defaults if it gives none.
///
/// # Safety
/// `from` is null or points to parameters.
unsafe fn parameters(
    identifier: &Identifier,
    from: *const abi::ConnParam,
) -> Result<ConnectionParameters> {
    // SAFETY: as promised.
    let (from, private) = match unsafe { from.as_ref() } {
        // SAFETY: as promised.
        Some(from) => unsafe { (*from, private(from.private_data, from.private_data_len)?) },
        None => {
            let data = PrivateData::new(&identifier.own.lock().connect_data);
            (none(), data.ok_or(Errno(libc::EINVAL))?)
        }
    };
    let own = identifier.own.lock();
    let mut parameters = ConnectionParameters {
        qp_num: from.qp_num,
        responder_resources: own.responder_resources,
        initiator_depth: own.initiator_depth,
        flow_control: from.flow_control,
        retry_count: from.retry_count,
        rnr_retry_count: from.rnr_retry_count,
        srq: from.srq,
        private,
        ..ConnectionParameters::default()
    };
    // SAFETY: null or the identifier's own.
    if let Some(queue_pair) = unsafe { identifier.public().qp.as_ref() } {
        parameters.qp_num = queue_pair.qp_num;
        parameters.srq = (!queue_pair.srq.is_null()).into();
    }
    Ok(parameters)
}

fn none() -> abi::ConnParam {
    abi::ConnParam {
        private_data: core::ptr::null(),
        private_data_len: 0,
        responder_resources: MOST,
        initiator_depth: MOST,
        flow_control: 1,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        srq: 0,
        qp_num: 0,
    }
}

/// Settles how many READs and atomics this side wants: as the program says, else as many as the device can, and on the
/// called side as many as the caller asked for.
///
/// # Safety
/// `from` is null or points to parameters.
unsafe fn choose_depths(
    identifier: &Identifier,
    from: *const abi::ConnParam,
    is_called: bool,
) -> Result<()> {
    let device = identifier.device()?;
    // SAFETY: as promised.
    let from = unsafe { from.as_ref() };
    let mut own = identifier.own.lock();
    let chosen = |said: Option<u8>, asked: u8, most: u8| match said {
        Some(count) if count != MOST => count,
        _ if is_called => asked.min(most),
        _ => most,
    };
    let resources = from.map(|from| from.responder_resources);
    let depth = from.map(|from| from.initiator_depth);
    own.responder_resources = chosen(
        resources,
        own.responder_resources,
        device.responder_resources,
    );
    own.initiator_depth = chosen(depth, own.initiator_depth, device.initiator_depth);
    Ok(())
}

/// `rdma_connect`.
///
/// # Safety
/// `id` came from this library, and `how` is null or points to parameters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_connect(id: *mut abi::Id, how: *mut abi::ConnParam) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { Identifier::of(id) }.and_then(|identifier| {
        // SAFETY: as the caller promises.
        let parameters = unsafe {
            choose_depths(identifier, how, false)?;
            parameters(identifier, how)?
        };
        let bound = session::call(&Connect {
            id: identifier.number,
            parameters,
        })?;
        identifier.follow(&bound.route)?;
        complete(identifier)
    }))
}

/// `rdma_accept`.
///
/// # Safety
/// `id` came from this library, and `how` is null or points to parameters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_accept(id: *mut abi::Id, how: *mut abi::ConnParam) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { Identifier::of(id) }.and_then(|identifier| {
        // SAFETY: as the caller promises.
        let parameters = unsafe {
            choose_depths(identifier, how, true)?;
            parameters(identifier, how)?
        };
        let (resources, depth) = (parameters.responder_resources, parameters.initiator_depth);
        qp_state::connect(identifier, resources, depth)?;
        let accepted = session::call(&Accept {
            id: identifier.number,
            parameters,
        });
        if let Err(error) = accepted {
            // The first error is the one to tell.
            let _flushed = qp_state::fail(identifier);
            return Err(error);
        }
        if identifier.is_datagram() {
            return Ok(());
        }
        complete(identifier)
    }))
}

/// Tells the daemon that this side, which called, is ready.
pub(super) fn ready(identifier: &Identifier) -> Result<()> {
    session::call(&Accept {
        id: identifier.number,
        ..Accept::default()
    })
    .map(|_| ())
}

/// `rdma_establish`: for programs that move their queue pairs themselves.
///
/// # Safety
/// `id` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_establish(id: *mut abi::Id) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { Identifier::of(id) }.and_then(|identifier| {
        if !identifier.public().qp.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        ready(identifier)
    }))
}

/// # Safety
/// `id` came from this library, and `data` points to that many bytes or is null.
unsafe fn reject(id: *mut abi::Id, data: *const c_void, length: u8) -> Result<()> {
    // SAFETY: as promised.
    let (identifier, private) = unsafe { (Identifier::of(id)?, private(data, length)?) };
    session::call(&Reject {
        id: identifier.number,
        reason: 0,
        reserved: 0,
        private,
    })
    .map(|_| ())
}

/// `rdma_reject`.
///
/// # Safety
/// `id` came from this library, and `data` points to that many bytes or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reject(id: *mut abi::Id, data: *const c_void, length: u8) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { reject(id, data, length) })
}

/// `rdma_reject_ece`: there are no extras to agree on, so this is a rejection like any other.
///
/// # Safety
/// As [`rdma_reject`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reject_ece(
    id: *mut abi::Id,
    data: *const c_void,
    length: u8,
) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { reject(id, data, length) })
}

/// `rdma_disconnect`.
///
/// # Safety
/// `id` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_disconnect(id: *mut abi::Id) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { Identifier::of(id) }.and_then(|identifier| {
        qp_state::fail(identifier)?;
        session::call(&Disconnect {
            id: identifier.number,
        })?;
        if identifier.is_datagram() {
            return Ok(());
        }
        complete(identifier)
    }))
}

/// `rdma_notify`: tells that the program saw an event of its queue pair.
///
/// # Safety
/// `id` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_notify(id: *mut abi::Id, event: c_uint) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { Identifier::of(id) }.and_then(|identifier| {
        match event {
            COMMUNICATION_ESTABLISHED => session::call(&Established {
                id: identifier.number,
            })
            .map(|_| ()),
            _ => Err(Errno(libc::EINVAL)),
        }
    }))
}
