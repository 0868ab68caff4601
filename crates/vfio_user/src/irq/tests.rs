use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::read;

use super::*;
use crate::client_fd::ClientFd;
use crate::script::{any_fd, sent};

#[derive(Clone, Default)]
struct Bell(Rc<Cell<u32>>);

impl Signal for Bell {
    fn signal(&self) -> Result<(), Blocks> {
        self.0.set(self.0.get() + 1);
        Ok(())
    }
}

/// A signal that makes its caller wait.
#[derive(Clone, Default)]
struct Stuck(Bell);

impl Signal for Stuck {
    fn signal(&self) -> Result<(), Blocks> {
        self.0.signal().and(Err(Blocks))
    }
}

#[test]
fn a_wired_vector_signals_each_time() {
    let (mut vectors, bell) = (IrqVectors::new(2), Bell::default());
    vectors.set(1, Some(bell.clone()));
    vectors.raise(1);
    vectors.raise(1);
    vectors.raise(0);
    assert_eq!(bell.0.get(), 2);
}

#[test]
fn an_interrupt_in_the_gap_is_signalled_once_when_the_vector_is_wired_again() {
    let (mut vectors, first, second) = (IrqVectors::new(1), Bell::default(), Bell::default());
    vectors.set(0, Some(first.clone()));
    vectors.set(0, None);
    vectors.raise(0);
    vectors.raise(0);
    vectors.clear();
    vectors.set(0, Some(second.clone()));
    assert_eq!((first.0.get(), second.0.get()), (0, 1));
    vectors.set(0, None);
    vectors.set(0, Some(second.clone()));
    assert_eq!(second.0.get(), 1);
}

#[test]
fn a_reset_forgets_what_is_pending_and_keeps_the_wiring() {
    let (mut vectors, bell) = (IrqVectors::new(2), Bell::default());
    vectors.set(0, Some(bell.clone()));
    vectors.raise(1);
    vectors.reset();
    vectors.set(1, Some(bell.clone()));
    assert_eq!(bell.0.get(), 0);
    vectors.raise(0);
    assert_eq!(bell.0.get(), 1);
}

#[test]
fn vectors_that_do_not_exist_are_ignored() {
    let mut vectors = IrqVectors::new(1);
    vectors.set(1, Some(Bell::default()));
    vectors.raise(u32::MAX);
    assert_eq!(vectors.count(), 1);
}

fn eventfds(count: usize) -> Vec<OwnedFd> {
    (0..count)
        .map(|_| eventfd(0, EventfdFlags::empty()).unwrap())
        .collect()
}

fn copies(fds: &[OwnedFd]) -> Vec<ClientFd> {
    let copies = fds.iter().map(|fd| fd.try_clone().unwrap());
    copies.map(sent).collect()
}

/// Number of signals of each eventfd; the descriptors are non-blocking after they were adopted.
fn rung(fds: &[OwnedFd]) -> Vec<u64> {
    let count = |fd| {
        let mut counter = [0; 8];
        read(fd, &mut counter).map_or(0, |_| u64::from_ne_bytes(counter))
    };
    fds.iter().map(count).collect()
}

fn trigger(start: u32, count: u32, data: IrqData<'_>) -> SetIrqs<'_> {
    SetIrqs {
        index: 2,
        start,
        count,
        action: IrqAction::Trigger,
        data,
    }
}

#[test]
fn requests_wire_raise_and_unwire() {
    let (mut vectors, fds) = (IrqVectors::new(4), eventfds(3));
    vectors
        .apply(trigger(1, 3, IrqData::Eventfd(copies(&fds))))
        .unwrap();
    vectors.raise(0);
    vectors
        .apply(trigger(1, 3, IrqData::Bool(&[1, 0, 2])))
        .unwrap();
    assert_eq!(rung(&fds), [1, 0, 1]);
    vectors.apply(trigger(2, 1, IrqData::None)).unwrap();
    assert_eq!(rung(&fds), [0, 1, 0]);
    vectors
        .apply(trigger(1, 1, IrqData::Eventfd(Vec::new())))
        .unwrap();
    vectors.apply(trigger(0, 4, IrqData::None)).unwrap();
    assert_eq!(rung(&fds), [0, 1, 1]);
    vectors.apply(trigger(0, 0, IrqData::None)).unwrap();
    vectors
        .apply(trigger(1, 1, IrqData::Eventfd(copies(&fds[..1]))))
        .unwrap();
    assert_eq!(rung(&fds), [1, 0, 0], "raised while unwired");
}

#[test]
fn only_eventfds_are_wired_and_none_of_a_bad_set_is() {
    let (mut vectors, fds) = (IrqVectors::new(2), eventfds(1));
    let mixed = vec![sent(fds[0].try_clone().unwrap()), sent(any_fd())];
    assert_eq!(
        vectors.apply(trigger(0, 2, IrqData::Eventfd(mixed))),
        Err(Errno::INVAL)
    );
    vectors.raise(0);
    let (pipe, _end) = std::io::pipe().unwrap();
    let others: [OwnedFd; 3] = [
        pipe.into(),
        tempfile::tempfile().unwrap().into(),
        epoll::create(epoll::CreateFlags::CLOEXEC).unwrap(),
    ];
    for other in others {
        assert_eq!(Eventfd::adopt(sent(other)).unwrap_err(), Errno::INVAL);
    }
    vectors
        .apply(trigger(0, 1, IrqData::Eventfd(copies(&fds))))
        .unwrap();
    assert_eq!(rung(&fds), [1]);
}

#[test]
fn a_full_counter_does_not_block() {
    let fd = eventfd(0, EventfdFlags::empty()).unwrap();
    let bell = Eventfd::adopt(sent(fd.try_clone().unwrap())).unwrap();
    rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    assert_eq!(bell.signal(), Ok(()));
    assert_eq!(rung(&[fd]), [u64::MAX - 1]);
}

#[test]
fn a_full_counter_that_blocks_is_given_up() {
    let fd = eventfd(0, EventfdFlags::empty()).unwrap();
    let bell = Eventfd::adopt(sent(fd.try_clone().unwrap())).unwrap();
    fcntl_setfl(&fd, OFlags::empty()).unwrap();
    assert_eq!(bell.signal(), Ok(()), "it has room");
    rustix::io::write(&fd, &(u64::MAX - 2).to_ne_bytes()).unwrap();
    assert_eq!(bell.signal(), Err(Blocks));
    fcntl_setfl(&fd, OFlags::NONBLOCK).unwrap();
    assert_eq!(rung(&[fd]), [u64::MAX - 1]);
}

#[test]
fn who_makes_one_signal_wait_gets_no_other() {
    let (mut vectors, stuck) = (IrqVectors::new(2), Stuck::default());
    vectors.raise(1);
    vectors.set(0, Some(stuck.clone()));
    vectors.set(1, Some(stuck.clone()));
    assert!(vectors.blocks());
    vectors.set(0, Some(stuck.clone()));
    vectors.raise(0);
    vectors.raise(1);
    vectors.reset();
    vectors.raise(1);
    assert!(vectors.blocks());
    assert_eq!(stuck.0.0.get(), 1);
}

#[test]
fn masking_is_not_offered() {
    let mut vectors = IrqVectors::<Eventfd>::new(1);
    for action in [IrqAction::Mask, IrqAction::Unmask] {
        let irqs = SetIrqs {
            index: 2,
            start: 0,
            count: 1,
            action,
            data: IrqData::None,
        };
        assert_eq!(vectors.apply(irqs), Err(Errno::INVAL));
    }
}
