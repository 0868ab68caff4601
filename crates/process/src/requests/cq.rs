//! Completion channels and completion queues.

use std::sync::Arc;

use rustix::io::Errno;
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
use crate::slabs::Part;

/// The cost of a channel: one end of a pipe.
pub(crate) const CHANNEL: [Cost; 1] = [(Kind::Descriptor, 1)];

/// The cost of a queue, without its memory.
pub(crate) const CQ: [Cost; 1] = [(Kind::Cq, 1)];

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

pub(super) fn create(asker: &mut Asker<'_>, request: CreateCq) -> OutcomeWithFds<CreateCq> {
    if request.entries == 0 {
        return Err(Errno::INVAL);
    }
    let channel = (request.channel != NO_CHANNEL).then_some(request.channel);
    let context = asker.context()?;
    if let Some(channel) = channel {
        context.channels.get_mut(channel).ok_or(Errno::NOENT)?;
    }
    let plan = CqPlan::new(request.entries, context.encloses).ok_or(Errno::INVAL)?;
    asker.afford(&CQ)?;
    let memory = asker.take_memory(plan.bytes)?;
    let created = asker.process.core.hca.create_cq(asker.owner);
    let id = asker.or_end_memory(created.map_err(errno), &memory)?;
    let fd = memory.descriptor();
    let reply = reply(id, &plan, &memory);
    let mut ring = CompletionRing::new(Arc::clone(&memory.area), plan.ring);
    let room = ring.enclosing_room().unwrap_or(0);
    let cq = Cq {
        owner: asker.owner,
        ring,
        memory,
        channel,
        cookie: request.cookie,
        unpublished: false,
        urgent: false,
        dead: false,
    };
    asker.process.cqs.put(id.0, cq);
    asker.process.core.hca.set_enclosing_room(id, room);
    count_user(asker, channel, |users| *users += 1);
    asker.take(&CQ)?;
    match asker.process.record_cq(id).and(fd) {
        Ok(fd) => Ok((reply, vec![fd])),
        Err(errno) => {
            destroy(asker, DestroyCq { cq: id.0 })?;
            Err(errno)
        }
    }
}

fn reply(id: CqId, plan: &CqPlan, memory: &Part) -> CqReply {
    CqReply {
        cq: id.0,
        bytes: memory.offset() + plan.bytes,
        ring: plan.ring.shifted(memory.offset()),
    }
}

fn count_user(asker: &mut Asker<'_>, channel: Option<u32>, count: impl FnOnce(&mut u32)) {
    let context = asker.process.context(asker.owner);
    let channel = context.and_then(|context| context.channels.get_mut(channel?));
    if let Some(channel) = channel {
        count(&mut channel.users);
    }
}

/// Moves the entries that the client has not polled into a new ring.
pub(super) fn resize(asker: &mut Asker<'_>, request: ResizeCq) -> OutcomeWithFds<ResizeCq> {
    let cq = asker.process.cqs.get(request.cq);
    asker.own(cq.map(|cq| cq.owner))?;
    if request.entries == 0 {
        return Err(Errno::INVAL);
    }
    let encloses = cq.is_some_and(|cq| cq.ring.encloses());
    let plan = CqPlan::new(request.entries, encloses).ok_or(Errno::INVAL)?;
    let memory = asker.take_memory(plan.bytes)?;
    let id = CqId(request.cq);
    let reply = reply(id, &plan, &memory);
    let fd = memory.descriptor();
    let unloaded = fd.and_then(|fd| Ok((fd, unload(asker, id, &plan, &memory)?)));
    let (fd, mut fresh) = asker.or_end_memory(unloaded, &memory)?;
    let room = fresh.enclosing_room().unwrap_or(0);
    let cq = asker.process.cqs.get_mut(request.cq).ok_or(Errno::NOENT)?;
    let old_ring = std::mem::replace(&mut cq.ring, fresh);
    let old = std::mem::replace(&mut cq.memory, memory);
    asker.process.core.hca.set_enclosing_room(id, room);
    asker.end_memory(&old)?;
    asker.process.write_cq(id);
    asker.process.discard((old_ring, old));
    Ok((reply, vec![fd]))
}

/// Makes a ring in that memory, with the entries of the old one that the client has not polled.
fn unload(
    asker: &mut Asker<'_>,
    id: CqId,
    plan: &CqPlan,
    memory: &Part,
) -> Result<CompletionRing, Errno> {
    let cq = asker.process.cqs.get_mut(id.0).ok_or(Errno::NOENT)?;
    let waiting = cq.ring.refresh().map_err(|_| Errno::INVAL)?;
    if waiting > plan.ring.slots {
        return Err(Errno::INVAL);
    }
    let mut fresh = CompletionRing::new(Arc::clone(&memory.area), plan.ring);
    cq.ring.unload(&mut fresh).map_err(|_| Errno::INVAL)?;
    Ok(fresh)
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
    asker.give(&CQ)?;
    asker.end_memory(&cq.memory)?;
    asker.process.discard(cq);
    Ok(Done {})
}
