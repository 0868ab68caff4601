//! Interrupt types: how many vectors each has, and how these are wired, masked and raised.

use rustix::io::Errno;

use crate::backend::IrqAction;
use crate::message::Command as C;
use crate::script::{Call, Irqs, Talk, command, words};

#[test]
fn interrupt_types_say_how_many_vectors_they_have() {
    let mut talk = Talk::greeted();
    let cases = [(0, 0b0111, 0), (1, 1, 0), (2, 1, 4), (3, 1, 1), (4, 1, 0)];
    for (index, flags, count) in cases {
        talk.send(&command(1, C::DeviceGetIrqInfo, &words(&[16, 0, index, 0])));
        talk.expect(1, C::DeviceGetIrqInfo, &words(&[16, flags, index, count]));
    }
    talk.send(&command(2, C::DeviceGetIrqInfo, &words(&[16, 0, 5, 0])));
    talk.expect_error(2, Errno::INVAL);
    talk.send(&command(3, C::DeviceGetIrqInfo, &words(&[12, 0, 2, 0])));
    talk.expect_error(3, Errno::INVAL);
}

const NONE: u32 = 1 << 0;
const BOOL: u32 = 1 << 1;
const EVENTFD: u32 = 1 << 2;
const MASK: u32 = 1 << 3;
const UNMASK: u32 = 1 << 4;
const TRIGGER: u32 = 1 << 5;

fn set_irqs(flags: u32, index: u32, start: u32, count: u32, data: &[u8]) -> Vec<u8> {
    let argsz = 20 + data.len() as u32;
    let payload = [&words(&[argsz, flags, index, start, count]), data].concat();
    command(1, C::DeviceSetIrqs, &payload)
}

fn irqs(start: u32, count: u32, action: IrqAction, data: Irqs) -> Call {
    Call::Irqs {
        index: 2,
        start,
        count,
        action,
        data,
    }
}

#[test]
fn eventfds_are_wired_and_unwired() {
    let mut talk = Talk::greeted();
    talk.send_with(&set_irqs(EVENTFD | TRIGGER, 2, 1, 3, &[]), 3);
    talk.expect(1, C::DeviceSetIrqs, &[]);
    talk.send(&set_irqs(EVENTFD | TRIGGER, 2, 1, 3, &[]));
    talk.expect(1, C::DeviceSetIrqs, &[]);
    talk.send(&set_irqs(NONE | TRIGGER, 2, 0, 0, &[]));
    talk.expect(1, C::DeviceSetIrqs, &[]);
    talk.expect_calls(&[
        irqs(1, 3, IrqAction::Trigger, Irqs::Eventfds(3)),
        irqs(1, 3, IrqAction::Trigger, Irqs::Eventfds(0)),
        irqs(0, 0, IrqAction::Trigger, Irqs::None),
    ]);
}

#[test]
fn interrupts_are_masked_and_raised() {
    let mut talk = Talk::greeted();
    talk.send(&set_irqs(NONE | MASK, 2, 0, 4, &[]));
    talk.expect(1, C::DeviceSetIrqs, &[]);
    talk.send(&set_irqs(BOOL | UNMASK, 2, 2, 2, &[0, 1]));
    talk.expect(1, C::DeviceSetIrqs, &[]);
    talk.expect_calls(&[
        irqs(0, 4, IrqAction::Mask, Irqs::None),
        irqs(2, 2, IrqAction::Unmask, Irqs::Bool(vec![0, 1])),
    ]);
}

#[test]
fn impossible_interrupt_requests_are_refused() {
    let cases = [
        (EVENTFD | TRIGGER, 2, 0, 2, 1),
        (EVENTFD | TRIGGER, 2, 0, 1, 2),
        (EVENTFD | TRIGGER, 2, 3, 2, 2),
        (EVENTFD | TRIGGER, 2, 0, 0, 0),
        (EVENTFD | TRIGGER, 1, 0, 1, 1),
        (EVENTFD | TRIGGER, 5, 0, 1, 1),
        (EVENTFD | TRIGGER, u32::MAX, 0, 1, 1),
        (EVENTFD | BOOL | TRIGGER, 2, 0, 1, 1),
        (EVENTFD | TRIGGER | MASK, 2, 0, 1, 1),
        (EVENTFD, 2, 0, 1, 1),
        (TRIGGER, 2, 0, 1, 1),
        (NONE | TRIGGER | 1 << 6, 2, 0, 1, 0),
        (NONE | TRIGGER, 2, u32::MAX, 1, 0),
        (NONE | TRIGGER, 2, 2, u32::MAX, 0),
        (NONE | TRIGGER, 2, 1, 0, 0),
        (BOOL | TRIGGER, 2, 0, 1, 0),
        (BOOL | TRIGGER, 2, 0, u32::MAX, 0),
    ];
    for (flags, index, start, count, fds) in cases {
        let mut talk = Talk::greeted();
        talk.send_with(&set_irqs(flags, index, start, count, &[]), fds);
        talk.expect_error(1, Errno::INVAL);
        talk.expect_silence();
    }
}
