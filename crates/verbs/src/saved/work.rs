//! Work requests and their records.

use alloc::boxed::Box;
use alloc::vec::Vec;

use vrdma_wire::{Lkey, Qkey, Rkey};

use crate::saved::convert::{access, failure, qpn, restore_address, save_address};
use crate::saved::{FindRegion, RestoreError, SaveRegion, check, record};
use crate::work::{
    BindWindow, Datagram, FastRegister, Imm, Inline, RecvWr, Remote, SendOp, SendWr, Sge, SgeList,
};

/// Most entries of a scatter/gather list that any front end allows.
const SGES_MAX: usize = 128;

fn save_sges(sges: &[Sge]) -> Vec<record::Sge> {
    let saved = sges.iter().map(|sge| record::Sge {
        addr: sge.addr,
        length: sge.length,
        lkey: sge.lkey.0,
    });
    saved.collect()
}

fn restore_sges(saved: &[record::Sge]) -> Result<SgeList, RestoreError> {
    check(saved.len() <= SGES_MAX, "a scatter/gather list is too long")?;
    let sges = saved.iter().map(|sge| Sge {
        addr: sge.addr,
        length: sge.length,
        lkey: Lkey(sge.lkey),
    });
    Ok(sges.collect())
}

pub(super) fn save_receive(wr: &RecvWr) -> record::Receive {
    record::Receive {
        id: wr.id,
        sges: wr.sges.as_ref().map_or(Vec::new(), |sges| save_sges(sges)),
        refused: wr.sges.as_ref().err().map_or(0, |status| *status as u32),
    }
}

pub(super) fn restore_receive(saved: &record::Receive) -> Result<RecvWr, RestoreError> {
    let sges = restore_sges(&saved.sges)?;
    Ok(RecvWr {
        id: saved.id,
        sges: match saved.refused {
            0 => Ok(sges),
            code => Err(failure(code)?),
        },
    })
}

pub(super) fn save_send<R>(wr: &SendWr<R>, region: SaveRegion<'_, R>) -> record::Send {
    let mut saved = record::Send {
        id: wr.id,
        fence: wr.fence,
        signaled: wr.signaled,
        solicited: wr.solicited,
        sges: save_sges(&wr.sges),
        inline: wr.inline.as_ref().map(|inline| inline.bytes().to_vec()),
        datagram: wr.datagram.as_ref().map(save_datagram),
        ..Default::default()
    };
    save_op(&wr.op, &mut saved, region);
    saved
}

fn save_op<R>(op: &SendOp<R>, saved: &mut record::Send, region: SaveRegion<'_, R>) {
    if let Some(remote) = remote_of(op) {
        (saved.addr, saved.key) = (remote.addr, remote.rkey.0);
    }
    saved.op = op_code(op);
    match op {
        SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) => saved.imm = u32::from_be_bytes(imm.0),
        SendOp::SendInvalidate(key) | SendOp::LocalInvalidate(key) => saved.key = key.0,
        SendOp::CompareSwap { compare, swap, .. } => {
            (saved.operand, saved.swap) = (*compare, *swap);
        }
        SendOp::FetchAdd { add, .. } => saved.operand = *add,
        SendOp::FastRegister(fill) => {
            saved.key = fill.key.0;
            saved.fill = Some(save_fill(fill, region));
        }
        SendOp::BindWindow(bind) => {
            saved.key = bind.window.0;
            saved.bind = Some(save_bind(bind));
        }
        SendOp::Refused(status) => saved.status = *status as u32,
        SendOp::Send | SendOp::Write(_) | SendOp::Read(_) => {}
    }
}

fn remote_of<R>(op: &SendOp<R>) -> Option<Remote> {
    match op {
        SendOp::Write(remote)
        | SendOp::WriteImm(remote, _)
        | SendOp::Read(remote)
        | SendOp::CompareSwap { remote, .. }
        | SendOp::FetchAdd { remote, .. } => Some(*remote),
        _ => None,
    }
}

fn op_code<R>(op: &SendOp<R>) -> u32 {
    match op {
        SendOp::Send => 0,
        SendOp::SendImm(_) => 1,
        SendOp::SendInvalidate(_) => 2,
        SendOp::Write(_) => 3,
        SendOp::WriteImm(..) => 4,
        SendOp::Read(_) => 5,
        SendOp::CompareSwap { .. } => 6,
        SendOp::FetchAdd { .. } => 7,
        SendOp::LocalInvalidate(_) => 8,
        SendOp::FastRegister(_) => 9,
        SendOp::Refused(_) => 10,
        SendOp::BindWindow(_) => 11,
    }
}

pub(super) fn restore_send<R>(
    saved: &record::Send,
    region: FindRegion<'_, R>,
) -> Result<SendWr<R>, RestoreError> {
    let wr = SendWr {
        id: saved.id,
        op: restore_op(saved, region)?,
        fence: saved.fence,
        signaled: saved.signaled,
        solicited: saved.solicited,
        sges: restore_sges(&saved.sges)?,
        inline: saved.inline.as_deref().map(Inline::from),
        datagram: saved.datagram.as_ref().map(restore_datagram).transpose()?,
    };
    check(wr.inline_is_valid(), "an inline payload is out of place")?;
    Ok(wr)
}

fn restore_op<R>(
    saved: &record::Send,
    region: FindRegion<'_, R>,
) -> Result<SendOp<R>, RestoreError> {
    let imm = Imm(saved.imm.to_be_bytes());
    let rkey = Rkey(saved.key);
    let remote = Remote {
        addr: saved.addr,
        rkey,
    };
    Ok(match saved.op {
        0 => SendOp::Send,
        1 => SendOp::SendImm(imm),
        2 => SendOp::SendInvalidate(rkey),
        3 => SendOp::Write(remote),
        4 => SendOp::WriteImm(remote, imm),
        5 => SendOp::Read(remote),
        6 => SendOp::CompareSwap {
            remote,
            compare: saved.operand,
            swap: saved.swap,
        },
        7 => SendOp::FetchAdd {
            remote,
            add: saved.operand,
        },
        8 => SendOp::LocalInvalidate(rkey),
        9 => SendOp::FastRegister(Box::new(restore_fill(saved, region)?)),
        10 => SendOp::Refused(failure(saved.status)?),
        11 => SendOp::BindWindow(restore_bind(saved)?),
        _ => return Err(RestoreError::Inconsistent("unknown operation")),
    })
}

fn save_bind(bind: &BindWindow) -> record::Bind {
    record::Bind {
        region: bind.region.0,
        start: bind.start,
        length: bind.length,
        access: bind.access.bits(),
        zero_based: bind.zero_based,
    }
}

fn restore_bind(saved: &record::Send) -> Result<BindWindow, RestoreError> {
    let bind = saved.bind.as_ref();
    let bind = bind.ok_or(RestoreError::Inconsistent("a bind does not say to what"))?;
    Ok(BindWindow {
        window: Rkey(saved.key),
        region: Lkey(bind.region),
        start: bind.start,
        length: bind.length,
        access: access(bind.access)?,
        zero_based: bind.zero_based,
    })
}

fn save_fill<R>(fill: &FastRegister<R>, region: SaveRegion<'_, R>) -> record::Fill {
    record::Fill {
        start: fill.start,
        length: fill.length,
        access: fill.access.bits(),
        pages: fill.pages,
        region: region(&fill.region),
    }
}

fn restore_fill<R>(
    saved: &record::Send,
    region: FindRegion<'_, R>,
) -> Result<FastRegister<R>, RestoreError> {
    let fill = saved.fill.as_ref();
    let fill = fill.ok_or(RestoreError::Inconsistent(
        "a fast register has no contents",
    ))?;
    Ok(FastRegister {
        key: Rkey(saved.key),
        start: fill.start,
        length: fill.length,
        access: access(fill.access)?,
        pages: fill.pages,
        region: region(&fill.region).ok_or(RestoreError::Region)?,
    })
}

fn save_datagram(datagram: &Datagram) -> record::Datagram {
    record::Datagram {
        qpn: datagram.qpn.get(),
        qkey: datagram.qkey.0,
        address: save_address(&datagram.address),
    }
}

fn restore_datagram(saved: &record::Datagram) -> Result<Datagram, RestoreError> {
    Ok(Datagram {
        qpn: qpn(saved.qpn)?,
        qkey: Qkey(saved.qkey),
        address: restore_address(&saved.address)?,
    })
}
