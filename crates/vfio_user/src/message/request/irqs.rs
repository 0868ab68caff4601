//! DEVICE_SET_IRQS: interrupts wired, masked or raised.

use super::{front, room_for};
use crate::backend::{IrqAction, IrqData, SetIrqs};
use crate::client_fd::ClientFd;
use crate::message::{Refusal, layout};

pub(super) fn set_irqs(payload: &[u8], fds: Vec<ClientFd>) -> Result<SetIrqs<'_>, Refusal> {
    const DATA: u32 = 0b000_111;
    const ACTION: u32 = 0b111_000;
    let (raw, rest) = front::<layout::SetIrqs>(payload)?;
    room_for::<layout::SetIrqs>(raw.argsz.get())?;
    let (flags, count) = (raw.flags.get(), raw.count.get());
    if flags & !(DATA | ACTION) != 0 {
        return Err(Refusal::invalid("unknown flags in a SET_IRQS request"));
    }
    let irqs = SetIrqs {
        index: raw.index.get(),
        start: raw.start.get(),
        count,
        action: irq_action(flags & ACTION)?,
        data: irq_data(flags & DATA, count, rest, fds)?,
    };
    if count == 0 && (irqs.start != 0 || !matches!(irqs.data, IrqData::None)) {
        return Err(Refusal::invalid("no vectors were named"));
    }
    Ok(irqs)
}

fn irq_action(flags: u32) -> Result<IrqAction, Refusal> {
    match flags {
        0b001_000 => Ok(IrqAction::Mask),
        0b010_000 => Ok(IrqAction::Unmask),
        0b100_000 => Ok(IrqAction::Trigger),
        _ => Err(Refusal::invalid(
            "a SET_IRQS request has exactly one action",
        )),
    }
}

fn irq_data(
    flags: u32,
    count: u32,
    rest: &[u8],
    fds: Vec<ClientFd>,
) -> Result<IrqData<'_>, Refusal> {
    match flags {
        0b001 => Ok(IrqData::None),
        0b010 => rest
            .get(..count as usize)
            .map(IrqData::Bool)
            .ok_or(Refusal::invalid("fewer booleans than vectors")),
        0b100 if fds.is_empty() || fds.len() == count as usize => Ok(IrqData::Eventfd(fds)),
        0b100 => Err(Refusal::invalid("not as many eventfds as vectors")),
        _ => Err(Refusal::invalid(
            "a SET_IRQS request has exactly one kind of data",
        )),
    }
}
