//! Completion channels and completion queues.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_provider::area::Area;
use vrdma_provider::daemon::{CompletionRing, CqPlan};
use vrdma_provider::message::{
    ChannelReply, CqReply, CreateChannel, CreateCq, DestroyChannel, DestroyCq, Done, NO_CHANNEL,
    ResizeCq,
};
use vrdma_verbs::object::CqId;

use super::{Asker, Cost, Outcome, OutcomeWithFds, errno};
use crate::channel::Channel;
use crate::limits::{self, fits};
use crate::objects::Cq;
use crate::quota::Kind;

/// The end of a pipe.
pub(crate) const CHANNEL: [Cost; 1] = [(Kind::Descriptor, 1)];

/// With the descriptor of its memory, if that is kept.
fn cost(bytes: u64, kept: bool) -> [Cost; 4] {
    [
        (Kind::Cq, 1),
        (Kind::RingBytes, bytes),
        (Kind::Mapping, 1),
        (Kind::Descriptor, kept.into()),
    ]
}

/// What our half of a queue costs.
pub(crate) fn cost_of(cq: &Cq) -> [Cost; 4] {
    cost(cq.bytes, cq.area.is_some())
}

pub(super) fn create_channel(
    asker: &mut Asker<'_>,
    _: CreateChannel,
) -> OutcomeWithFds<CreateChannel> {
    let context = asker.process.context(asker.owner).ok_or(Errno::NOENT)?;
    let channel = context.channels.vacant(0);
    fits(channel, limits::CHANNELS)
        .then_some(())
        .ok_or(Errno::NOMEM)?;
    asker.afford(&CHANNEL)?;
    let (made, read) = Channel::new()?;
    let context = asker.process.context(asker.owner).ok_or(Errno::NOENT)?;
    context.channels.put(channel, made);
    asker.take(&CHANNEL)?;
    let recorded = asker.process.record_channel(asker.owner, channel);
    if let Err(errno) = recorded {
        let context = asker.process.context(asker.owner).ok_or(Errno::NOENT)?;
        drop(context.channels.take(channel));
        asker.give(&CHANNEL)?;
        return Err(errno);
    }
    Ok((ChannelReply { channel }, vec![read]))
}

pub(super) fn destroy_channel(
    asker: &mut Asker<'_>,
    request: DestroyChannel,
) -> Outcome<DestroyChannel> {
    let context = asker.process.context(asker.owner).ok_or(Errno::NOENT)?;
    let channel = context.channels.get(request.channel).ok_or(Errno::NOENT)?;
    if channel.users > 0 {
        return Err(Errno::BUSY);
    }
    let channel = context.channels.take(request.channel);
    asker.process.discard(channel);
    asker
        .process
        .forget_channel_record(asker.owner, request.channel);
    asker.give(&CHANNEL)?;
    Ok(Done {})
}

/// A ring, and its memory's descriptor.
fn ring(plan: &CqPlan) -> Result<(CompletionRing, OwnedFd), Errno> {
    let (area, fd) = Area::create("vrdma-cq", plan.bytes as usize).map_err(|_| Errno::NOMEM)?;
    Ok((CompletionRing::new(Arc::new(area), plan.ring), fd))
}

pub(super) fn create(asker: &mut Asker<'_>, request: CreateCq) -> OutcomeWithFds<CreateCq> {
    if request.entries == 0 {
        return Err(Errno::INVAL);
    }
    let channel = (request.channel != NO_CHANNEL).then_some(request.channel);
    let context = asker.process.context(asker.owner).ok_or(Errno::NOENT)?;
    let encloses = context.encloses;
    let plan = CqPlan::new(request.entries, encloses).ok_or(Errno::INVAL)?;
    let is_recorded = asker.process.is_recorded();
    asker.afford(&cost(plan.bytes.into(), is_recorded))?;
    let context = asker.process.context(asker.owner).ok_or(Errno::NOENT)?;
    if let Some(channel) = channel {
        context.channels.get_mut(channel).ok_or(Errno::NOENT)?;
    }
    let (mut ring, fd) = ring(&plan)?;
    let room = ring.enclosing_room().unwrap_or(0);
    let area = asker.process.keep(&fd)?;
    let id = asker
        .process
        .core
        .hca
        .create_cq(asker.owner)
        .map_err(errno)?;
    let cq = Cq {
        owner: asker.owner,
        ring,
        area,
        bytes: plan.bytes.into(),
        channel,
        cookie: request.cookie,
        unpublished: false,
        urgent: false,
        dead: false,
    };
    asker.process.cqs.put(id.0, cq);
    asker.process.core.hca.set_enclosing_room(id, room);
    count_user(asker, channel, |users| *users += 1);
    asker.take(&cost(plan.bytes.into(), is_recorded))?;
    if let Err(errno) = asker.process.record_cq(id) {
        destroy(asker, DestroyCq { cq: id.0 })?;
        return Err(errno);
    }
    Ok((
        CqReply {
            cq: id.0,
            bytes: plan.bytes,
            ring: plan.ring,
        },
        vec![fd],
    ))
}

fn count_user(asker: &mut Asker<'_>, channel: Option<u32>, count: impl FnOnce(&mut u32)) {
    let context = asker.process.context(asker.owner);
    let channel = context.and_then(|context| context.channels.get_mut(channel?));
    if let Some(channel) = channel {
        count(&mut channel.users);
    }
}

/// Moves what the client has not polled into a new ring.
pub(super) fn resize(asker: &mut Asker<'_>, request: ResizeCq) -> OutcomeWithFds<ResizeCq> {
    let cq = asker.process.cqs.get(request.cq);
    asker.own(cq.map(|cq| cq.owner))?;
    if request.entries == 0 {
        return Err(Errno::INVAL);
    }
    let encloses = cq.is_some_and(|cq| cq.ring.encloses());
    let plan = CqPlan::new(request.entries, encloses).ok_or(Errno::INVAL)?;
    let new = [(Kind::RingBytes, u64::from(plan.bytes))];
    asker.afford(&new)?;
    let is_recorded = asker.process.is_recorded();
    let cq = asker.process.cqs.get_mut(request.cq).ok_or(Errno::NOENT)?;
    let waiting = cq.ring.refresh().map_err(|_| Errno::INVAL)?;
    if waiting > request.entries {
        return Err(Errno::INVAL);
    }
    let (mut fresh, fd) = ring(&plan)?;
    let area = is_recorded.then(|| fd.try_clone()).transpose();
    let area = area.map_err(|_| Errno::MFILE)?;
    cq.ring.unload(&mut fresh).map_err(|_| Errno::INVAL)?;
    let room = fresh.enclosing_room().unwrap_or(0);
    cq.ring = fresh;
    let id = CqId(request.cq);
    asker.process.core.hca.set_enclosing_room(id, room);
    let old_area = std::mem::replace(&mut cq.area, area);
    let old = std::mem::replace(&mut cq.bytes, plan.bytes.into());
    asker.take(&new)?;
    asker.give(&[(Kind::RingBytes, old)])?;
    asker.process.write_cq(CqId(request.cq));
    asker.process.discard(old_area);
    Ok((
        CqReply {
            cq: request.cq,
            bytes: plan.bytes,
            ring: plan.ring,
        },
        vec![fd],
    ))
}

pub(super) fn destroy(asker: &mut Asker<'_>, request: DestroyCq) -> Outcome<DestroyCq> {
    let cq = asker.process.cqs.get(request.cq);
    asker.own(cq.map(|cq| cq.owner))?;
    asker
        .process
        .core
        .hca
        .destroy_cq(CqId(request.cq))
        .map_err(errno)?;
    let Some(cq) = asker.process.cqs.take(request.cq) else {
        return Err(Errno::NOENT);
    };
    asker.process.forget_cq(CqId(request.cq));
    count_user(asker, cq.channel, |users| *users -= 1);
    let context = asker.process.context(asker.owner);
    let channel = context.and_then(|context| context.channels.get_mut(cq.channel?));
    if let Some(channel) = channel {
        channel.forget(cq.cookie);
    }
    asker.give(&cost_of(&cq))?;
    asker.process.discard(cq);
    Ok(Done {})
}
