//! Queue pairs and their records.

use alloc::collections::VecDeque;

use vrdma_wire::{Psn, Rkey};

use crate::attr::AttrMask;
use crate::object::{Capacity, CqId, PdId, QpId, QpSpec, QpType, SrqId};
use crate::qp::{Qp, values_are_valid};
use crate::requester::{Drain, Pending, Phase, Requester, SEND_WINDOW};
use crate::responder::{Message, Replay, Replies, Responder};
use crate::saved::convert::{
    failure, narrow, psn, qp_type, qp_type_code, qpn, restore_attr, save_attr,
};
use crate::saved::work::{restore_receive, restore_send, save_receive, save_send};
use crate::saved::{FindRegion, RestoreError, SaveRegion, check, record};
use crate::shared::Shared;
use crate::srq::RECEIVE_WINDOW;
use crate::work::{RecvWr, Remote};

/// Saves a queue pair with the work that is under way.
pub(super) fn save<R>(qp: &Qp<R>, region: SaveRegion<'_, R>) -> record::Qp {
    record::Qp {
        requester: save_requester(qp, region),
        responder: save_responder(&qp.responder),
        ..save_still(qp)
    }
}

/// Saves a queue pair without work: only what its owner has made of it.
pub(super) fn save_still<R>(qp: &Qp<R>) -> record::Qp {
    record::Qp {
        id: qp.id.0,
        qpn: qp.qpn.get(),
        qp_type: qp_type_code(qp.spec.qp_type),
        pd: qp.spec.pd.0,
        send_cq: qp.spec.send_cq.0,
        recv_cq: qp.spec.recv_cq.0,
        srq: qp.spec.srq.map(|srq| srq.0),
        signal_all: qp.spec.signal_all,
        block_own_multicast: qp.spec.block_own_multicast,
        capacity: save_capacity(&qp.spec.capacity),
        attr: save_attr(&qp.attr),
        ..Default::default()
    }
}

/// Saves the capacity, which is left out when nothing was promised.
fn save_capacity(capacity: &Capacity) -> Option<record::Capacity> {
    let saved = record::Capacity {
        send_wrs: capacity.send_wrs,
        recv_wrs: capacity.recv_wrs,
        send_sges: capacity.send_sges,
        recv_sges: capacity.recv_sges,
        inline_bytes: capacity.inline_bytes,
    };
    (*capacity != Capacity::default()).then_some(saved)
}

fn restore_capacity(saved: Option<&record::Capacity>) -> Capacity {
    saved.map_or(Capacity::default(), |saved| Capacity {
        send_wrs: saved.send_wrs,
        recv_wrs: saved.recv_wrs,
        send_sges: saved.send_sges,
        recv_sges: saved.recv_sges,
        inline_bytes: saved.inline_bytes,
    })
}

/// Restores a queue pair. The objects that it names must exist already.
pub(super) fn restore<R>(
    saved: &record::Qp,
    shared: &Shared<R>,
    region: FindRegion<'_, R>,
) -> Result<Qp<R>, RestoreError> {
    let spec = QpSpec {
        qp_type: qp_type(saved.qp_type)?,
        pd: PdId(saved.pd),
        send_cq: CqId(saved.send_cq),
        recv_cq: CqId(saved.recv_cq),
        srq: saved.srq.map(SrqId),
        signal_all: saved.signal_all,
        block_own_multicast: saved.block_own_multicast,
        capacity: restore_capacity(saved.capacity.as_ref()),
    };
    check_references(&spec, shared)?;
    let owner = shared.pds.get(saved.pd).map(|pd| pd.owner);
    let owner = owner.ok_or(RestoreError::Inconsistent("a queue pair has no domain"))?;
    let mut qp = Qp::new(QpId(saved.id), qpn(saved.qpn)?, owner, spec);
    qp.attr = restore_attr(&saved.attr)?;
    check_attr(&qp, shared)?;
    qp.requester = restore_requester(&saved.requester, &qp, region)?;
    qp.responder = restore_responder(&saved.responder)?;
    Ok(qp)
}

fn check_references<R>(spec: &QpSpec, shared: &Shared<R>) -> Result<(), RestoreError> {
    let owner = shared.pds.get(spec.pd.0).map(|pd| pd.owner);
    for cq in [spec.send_cq, spec.recv_cq] {
        let same = shared.cqs.get(cq.0).map(|cq| cq.owner) == owner;
        check(same, "a queue pair and its CQ do not go together")?;
    }
    if let Some(srq) = spec.srq {
        let pd = shared.srqs.get(srq.0).map(|srq| srq.pd);
        check(
            pd == Some(spec.pd),
            "a queue pair and its SRQ do not go together",
        )?;
        check(spec.qp_type != QpType::Gsi, "a GSI queue pair has an SRQ")?;
    }
    Ok(())
}

/// Checks the attributes, on which only connections depend that have been through RTR.
fn check_attr<R>(qp: &Qp<R>, shared: &Shared<R>) -> Result<(), RestoreError> {
    let depends = qp.is_connected() && (qp.receives() || qp.sends());
    let valid = values_are_valid(&shared.limits, &qp.attr, AttrMask::all());
    check(!depends || valid, "an attribute is out of its range")
}

fn save_requester<R>(qp: &Qp<R>, region: SaveRegion<'_, R>) -> record::Requester {
    let requester = &qp.requester;
    let pending = |pending: &Pending<R>| {
        let saved = save_pending(pending, region);
        match qp.is_connected() {
            true => saved,
            false => begin_again(saved),
        }
    };
    record::Requester {
        queue: requester.queue.iter().map(pending).collect(),
        unacked: requester.settled.get(),
        retries: requester.retries.into(),
        rnr_retries: requester.rnr_retries.into(),
        drain_event: requester.drain == Drain::Notify,
    }
}

/// Restores the requester, with the cursor at the oldest request.
fn restore_requester<R>(
    saved: &record::Requester,
    qp: &Qp<R>,
    region: FindRegion<'_, R>,
) -> Result<Requester<R>, RestoreError> {
    check(saved.queue.len() <= SEND_WINDOW, "too many send requests")?;
    let mut queue = VecDeque::with_capacity(saved.queue.len());
    for pending in &saved.queue {
        let pending = restore_pending(pending, region)?;
        check_pending(&pending, qp)?;
        queue.push_back(pending);
    }
    let unacked = psn(saved.unacked)?;
    check_order(&queue, unacked)?;
    let done = queue.iter().filter(|it| it.phase == Phase::Done);
    let done_early = done.count() as u32;
    let drain = if saved.drain_event {
        Drain::Notify
    } else {
        Drain::Quiet
    };
    Ok(Requester {
        queue,
        next: unacked,
        unacked,
        sent: unacked,
        resumed: true,
        settled: unacked,
        retries: narrow(saved.retries, "a retry counter is too large")?,
        rnr_retries: narrow(saved.rnr_retries, "a retry counter is too large")?,
        drain,
        done_early,
        ..Requester::default()
    })
}

/// Code of [`Phase::Posted`] in records.
const POSTED: u32 = 0;

/// Code of [`Phase::Started`] in records.
const STARTED: u32 = 1;

fn save_pending<R>(pending: &Pending<R>, region: SaveRegion<'_, R>) -> record::Pending {
    let (phase, status) = match pending.phase {
        Phase::Posted => (POSTED, 0),
        Phase::Started => (STARTED, 0),
        Phase::Done => (2, 0),
        Phase::Failed(status) => (3, status as u32),
    };
    record::Pending {
        work: save_send(&pending.wr, region),
        phase,
        status,
        length: pending.length,
        first: pending.first.get(),
        packets: pending.packets,
    }
}

/// Resets a datagram that waits for its path: it has not gone out, and has no PSN that anybody knows.
fn begin_again(saved: record::Pending) -> record::Pending {
    match saved.phase {
        STARTED => record::Pending {
            phase: POSTED,
            ..saved
        },
        _ => saved,
    }
}

fn restore_pending<R>(
    saved: &record::Pending,
    region: FindRegion<'_, R>,
) -> Result<Pending<R>, RestoreError> {
    Ok(Pending {
        wr: restore_send(&saved.work, region)?,
        phase: match saved.phase {
            POSTED => Phase::Posted,
            STARTED => Phase::Started,
            2 => Phase::Done,
            3 => Phase::Failed(failure(saved.status)?),
            _ => return Err(RestoreError::Inconsistent("unknown phase of a request")),
        },
        length: saved.length,
        first: psn(saved.first)?,
        packets: saved.packets,
    })
}

/// Checks that a started message has the length of its buffers and the PSNs of its length, by which units are cut.
fn check_pending<R>(pending: &Pending<R>, qp: &Qp<R>) -> Result<(), RestoreError> {
    if pending.phase != Phase::Started {
        return Ok(());
    }
    let bytes = pending.wr.local_bytes();
    let right_length = bytes == u64::from(pending.length) || pending.wr.op.is_atomic();
    let packets = qp.attr.path_mtu.packets(pending.length);
    let right = qp.is_connected() && right_length && pending.packets == packets;
    check(right, "a started request has wrong lengths")
}

/// Checks that messages with PSNs follow one another on the circle, also those that failed later and wait for an older
/// one, and that the first unfinished one holds the oldest PSN without an answer.
fn check_order<R>(queue: &VecDeque<Pending<R>>, unacked: Psn) -> Result<(), RestoreError> {
    let has_numbers = |pending: &&Pending<R>| match pending.phase {
        Phase::Started => true,
        Phase::Failed(_) => pending.packets > 0,
        Phase::Posted | Phase::Done => false,
    };
    let mut numbered = queue.iter().filter(has_numbers);
    let Some(oldest) = numbered.next() else {
        return Ok(());
    };
    let inside = unacked.since(oldest.first) < oldest.packets;
    let mut end = oldest.first.plus(oldest.packets);
    let chained = numbered.all(|next| {
        let follows = next.first == end;
        end = next.first.plus(next.packets);
        follows
    });
    check(inside && chained, "started requests have wrong PSNs")
}

fn save_responder(responder: &Responder) -> record::Responder {
    let mut saved = record::Responder {
        queue: responder.queue.iter().map(save_receive).collect(),
        expected: responder.expected.get(),
        msn: responder.msn,
        told: responder.told,
        established: responder.established,
        replays: responder.replays.iter().map(save_replay).collect(),
        ..Default::default()
    };
    match &responder.message {
        Message::None => {}
        Message::Send { receive, stored } => {
            saved.send = Some(record::SendUnderWay {
                receive: save_receive(receive),
                stored: *stored,
            });
        }
        Message::Write {
            remote,
            left,
            length,
        } => {
            saved.write = Some(record::WriteUnderWay {
                addr: remote.addr,
                rkey: remote.rkey.0,
                left: *left,
                length: *length,
            });
        }
    }
    saved
}

fn save_replay(replay: &Replay) -> record::Replay {
    record::Replay {
        psn: replay.psn.get(),
        old: replay.old,
    }
}

fn restore_responder(saved: &record::Responder) -> Result<Responder, RestoreError> {
    let few = saved.replays.len() <= usize::from(u8::MAX);
    check(few, "too many atomics to answer again")?;
    let replays = saved.replays.iter().map(|replay| {
        Ok(Replay {
            psn: psn(replay.psn)?,
            old: replay.old,
        })
    });
    Ok(Responder {
        // A peer that tries keys begins again, but gains no more tries than there are moves.
        rights_faults: 0,
        queue: restore_receives(&saved.queue)?,
        expected: psn(saved.expected)?,
        msn: psn(saved.msn)?.get(),
        told: saved.told,
        established: saved.established,
        message: restore_message(saved)?,
        newest_data: None,
        replays: replays.collect::<Result<_, RestoreError>>()?,
        replies: Replies::default(),
    })
}

pub(super) fn restore_receives(
    saved: &[record::Receive],
) -> Result<VecDeque<RecvWr>, RestoreError> {
    check(saved.len() <= RECEIVE_WINDOW, "too many receives")?;
    saved.iter().map(restore_receive).collect()
}

fn restore_message(saved: &record::Responder) -> Result<Message, RestoreError> {
    match (&saved.send, &saved.write) {
        (None, None) => Ok(Message::None),
        (Some(send), None) => Ok(Message::Send {
            receive: restore_receive(&send.receive)?,
            stored: send.stored,
        }),
        (None, Some(write)) => {
            check(
                write.left <= write.length,
                "a WRITE has more to come than it is long",
            )?;
            Ok(Message::Write {
                remote: Remote {
                    addr: write.addr,
                    rkey: Rkey(write.rkey),
                },
                left: write.left,
                length: write.length,
            })
        }
        (Some(_), Some(_)) => Err(RestoreError::Inconsistent("two messages are under way")),
    }
}
