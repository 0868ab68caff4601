//! Both ends together.

mod enclosed;

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use zerocopy::IntoBytes;

use crate::area::Area;
use crate::client::{CallError, CompletionQueue, Connection, ReceiveQueue, SendQueue};
use crate::daemon::{self, Answer, CompletionRing, CqPlan, QpPlan, RingError, WorkRing};
use crate::layout::{Buffer, Completion, RecvHeader, SendHeader, armed, queue_header, send_flag};
use crate::message::{AllocPd, Call, DeallocPd, Hello, PdReply, QpCapacity};
use crate::socket::send;
use crate::version::OtherVersion;
use crate::{EAGER_MAX, VERSION};

struct Pair {
    area: Arc<Area>,
    plan: QpPlan,
    theirs: Arc<Area>,
}

fn queue_pair() -> Pair {
    queue_pair_of(4)
}

fn queue_pair_of(max_send_wr: u32) -> Pair {
    let wanted = QpCapacity {
        max_send_wr,
        max_recv_wr: 2,
        max_send_sge: 2,
        max_recv_sge: 1,
        max_inline: 64,
    };
    let plan = QpPlan::new(&wanted, false).unwrap();
    let (area, fd) = Area::create("test", plan.bytes as usize).unwrap();
    let theirs = Area::map(fd.as_fd(), plan.bytes as usize).unwrap();
    Pair {
        area: Arc::new(area),
        plan,
        theirs: Arc::new(theirs),
    }
}

fn buffer_of(bytes: &[u8]) -> Buffer {
    Buffer {
        addr: bytes.as_ptr() as u64,
        length: bytes.len() as u32,
        lkey: 5,
    }
}

#[test]
fn a_send_arrives_with_its_buffers_or_its_bytes() {
    let pair = queue_pair();
    let mut sender = SendQueue::new(Arc::clone(&pair.area), pair.plan.send).unwrap();
    let mut ring = WorkRing::new(Arc::clone(&pair.theirs), pair.plan.send);
    let payload = buffer_of(b"hello");
    let header = SendHeader {
        wr_id: 7,
        ..SendHeader::default()
    };
    sender.push(&header, &[payload, payload]).unwrap();
    // SAFETY: the buffer is a constant.
    unsafe { sender.push_copied(&header, &[payload, payload]) }.unwrap();
    assert!(ring.fetch().unwrap().is_none(), "nothing is published yet");
    sender.publish();

    let slot = ring.fetch().unwrap().unwrap();
    let got: SendHeader = slot.header();
    assert_eq!((got.wr_id, got.buffers, got.flags), (7, 2, 0));
    assert_eq!(slot.buffer::<SendHeader>(1), Some(payload));
    assert_eq!(slot.buffer::<SendHeader>(99), None);
    let got: SendHeader = ring.fetch().unwrap().unwrap().header();
    assert_eq!(
        (got.flags, got.buffers, got.data_length),
        (send_flag::DATA, 0, 10)
    );
    let mut bytes = [0; 10];
    pair.theirs.read(
        (pair.plan.send.data_at + got.data_offset) as usize,
        &mut bytes,
    );
    assert_eq!(&bytes, b"hellohello");
}

/// UCX mixes both and counts only slots: a refused inline send ends it.
#[test]
fn eager_payload_leaves_room_for_inline_payload() {
    let pair = queue_pair_of(64);
    let mut sender = SendQueue::new(Arc::clone(&pair.area), pair.plan.send).unwrap();
    let mut ring = WorkRing::new(Arc::clone(&pair.theirs), pair.plan.send);
    let (long, short) = ([1; EAGER_MAX as usize - 100], [2; 64]);
    let (long, short) = ([buffer_of(&long)], [buffer_of(&short)]);
    let header = SendHeader::default();
    for round in 0..5 {
        let mut eager = 0;
        // SAFETY: both buffers live as long as this function.
        while unsafe { sender.push_eager(&header, &long) }.is_ok() {
            eager += 1;
        }
        assert!((10..=16).contains(&eager), "{eager} in round {round}");
        for sent in eager..64 {
            // SAFETY: as above.
            let outcome = unsafe { sender.push_copied(&header, &short) };
            assert!(outcome.is_ok(), "number {sent} of round {round}");
        }
        sender.push(&header, &[]).unwrap_err();
        sender.publish();
        while ring.fetch().unwrap().is_some() {
            ring.release();
        }
        ring.show_released();
    }
}

#[test]
fn slots_come_back_when_they_are_shown_as_released() {
    let pair = queue_pair();
    let mut sender = SendQueue::new(Arc::clone(&pair.area), pair.plan.send).unwrap();
    let mut ring = WorkRing::new(Arc::clone(&pair.theirs), pair.plan.send);
    for _ in 0..3 {
        for _ in 0..4 {
            sender.push(&SendHeader::default(), &[]).unwrap();
        }
        assert!(sender.push(&SendHeader::default(), &[]).is_err());
        sender.publish();
        while ring.fetch().unwrap().is_some() {
            ring.release();
        }
        ring.show_released();
        assert_eq!(sender.room(), 4);
    }
}

#[test]
fn receives_ring_only_when_the_daemon_asks() {
    let pair = queue_pair();
    let mut receiver = ReceiveQueue::new(Arc::clone(&pair.area), pair.plan.recv).unwrap();
    let mut ring = WorkRing::new(Arc::clone(&pair.theirs), pair.plan.recv);
    receiver.push(9, &[buffer_of(b"x")]).unwrap();
    assert!(!receiver.publish());
    let slot = ring.fetch().unwrap().unwrap();
    assert_eq!(
        (
            slot.header::<RecvHeader>().wr_id,
            slot.buffer::<RecvHeader>(0).unwrap().length
        ),
        (9, 1)
    );
    ring.demand_ring(true);
    receiver.push(9, &[]).unwrap();
    assert!(receiver.publish());
}

#[test]
fn impossible_indices_are_errors() {
    let pair = queue_pair();
    let mut ring = WorkRing::new(Arc::clone(&pair.theirs), pair.plan.send);
    let producer = pair.area.u32(queue_header::PRODUCER);
    producer.store(5, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(ring.fetch().err(), Some(RingError::Index));
    producer.store(2, std::sync::atomic::Ordering::Relaxed);
    assert!(ring.fetch().unwrap().is_some());
    producer.store(0, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(
        ring.refresh(),
        Err(RingError::Index),
        "behind what was fetched"
    );
}

#[test]
fn completions_arrive_in_order_and_a_full_ring_says_so() {
    let plan = CqPlan::new(2, false).unwrap();
    let (area, fd) = Area::create("test", plan.bytes as usize).unwrap();
    let mut ring = CompletionRing::new(Arc::new(area), plan.ring);
    let theirs = Area::map(fd.as_fd(), plan.bytes as usize).unwrap();
    let mut queue = CompletionQueue::new(Arc::new(theirs), plan.ring).unwrap();
    let entry = |wr_id| Completion {
        wr_id,
        ..Completion::default()
    };
    ring.write(&entry(1)).unwrap();
    ring.write(&entry(2)).unwrap();
    assert_eq!(ring.write(&entry(3)), Err(RingError::Full));
    let mut poll = || queue.poll(|_, _| ()).map(|entry| entry.wr_id);
    assert_eq!(poll(), None);
    ring.publish();
    assert_eq!((poll(), poll(), poll()), (Some(1), Some(2), None));
    ring.write(&entry(3)).unwrap();
}

#[test]
fn an_arming_fires_once() {
    let plan = CqPlan::new(2, false).unwrap();
    let (area, fd) = Area::create("test", plan.bytes as usize).unwrap();
    let ring = CompletionRing::new(Arc::new(area), plan.ring);
    let theirs = Area::map(fd.as_fd(), plan.bytes as usize).unwrap();
    let queue = CompletionQueue::new(Arc::new(theirs), plan.ring).unwrap();
    assert!(!ring.take_armed(true));
    queue.arm(armed::SOLICITED);
    assert!(!ring.take_armed(false));
    assert!(ring.take_armed(true));
    assert!(!ring.take_armed(true));
    queue.arm(armed::ANY);
    queue.arm(armed::SOLICITED);
    assert!(ring.take_armed(false));
}

/// A client whose daemon ends after taking its arming away waits, and nobody else knows of it.
#[test]
fn a_notification_is_owed_until_it_was_given() {
    let plan = CqPlan::new(2, false).unwrap();
    let (area, fd) = Area::create("test", plan.bytes as usize).unwrap();
    let area = Arc::new(area);
    let ring = CompletionRing::new(Arc::clone(&area), plan.ring);
    let theirs = Area::map(fd.as_fd(), plan.bytes as usize).unwrap();
    let queue = CompletionQueue::new(Arc::new(theirs), plan.ring).unwrap();
    queue.arm(armed::SOLICITED);
    assert!(!ring.take_armed(false) && !ring.owes_notification());
    assert!(ring.take_armed(true));
    let mut next = CompletionRing::resume(area, plan.ring, 0).unwrap();
    assert!(!next.take_armed(true) && next.owes_notification());
    let (larger, _) = Area::create("test", plan.bytes as usize).unwrap();
    let mut resized = CompletionRing::new(Arc::new(larger), plan.ring);
    next.unload(&mut resized).unwrap();
    assert!(resized.owes_notification());
    resized.notified();
    assert!(!resized.owes_notification());
}

#[test]
fn calls_are_answered_or_refused() {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let server = std::thread::spawn(move || {
        while rustix::event::poll(
            &mut [rustix::event::PollFd::new(
                &theirs,
                rustix::event::PollFlags::IN,
            )],
            None,
        )
        .is_ok()
        {
            let Ok(Some(request)) = daemon::take(theirs.as_fd(), drop) else {
                return;
            };
            let answer = match request.parse::<AllocPd>() {
                Some(_) if request.code() == AllocPd::CODE => {
                    Ok(Answer::new::<AllocPd>(&PdReply { pd: 3 }, Vec::new()))
                }
                _ => Err(Errno::BUSY),
            };
            daemon::send_answer(
                theirs.as_fd(),
                request.header(),
                answer.as_ref().map_err(|errno| *errno),
            )
            .unwrap();
        }
    });
    let connection = Connection::new(ours);
    assert_eq!(
        connection.call(&AllocPd {}, &[]).unwrap().body,
        PdReply { pd: 3 }
    );
    let refused = connection.call(&DeallocPd { pd: 3 }, &[]).unwrap_err();
    assert_eq!(refused, CallError::Refused(Errno::BUSY));
    drop(connection);
    server.join().unwrap();
}

/// In another version the layout of the rest may differ, too.
#[test]
fn a_first_request_of_another_version_is_known_by_its_first_word() {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let cases = [
        (vec![Hello::CODE, 0], None),
        (vec![Hello::CODE, 0, VERSION], Some(Ok(()))),
        (vec![Hello::CODE, 0, 1, 5, 6], Some(Err(OtherVersion(1)))),
    ];
    for (words, wanted) in cases {
        send(ours.as_fd(), words.as_bytes(), &[], SendFlags::empty()).unwrap();
        let request = daemon::take(theirs.as_fd(), drop).unwrap().unwrap();
        assert_eq!(request.check_version(), wanted);
    }
}
