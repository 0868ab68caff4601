//! Answers that the daemon of the tests gives unless the test says otherwise.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use vrdma_provider::VERSION;
use vrdma_provider::area::Area;
use vrdma_provider::daemon::{Answer, CqPlan, QpPlan, Request, SrqPlan};
use vrdma_provider::doorbell::PAGE_BYTES;
use vrdma_provider::layout::cq_header;
use vrdma_provider::message::{
    AllocMw, AllocPd, AttachMcast, Call, ChannelReply, CqReply, CreateChannel, CreateCq, CreateQp,
    CreateSrq, DeallocMw, DeallocPd, DeregMr, DestroyChannel, DestroyCq, DestroyQp, DestroySrq,
    DetachMcast, DeviceReply, Done, Hello, HelloReply, ModifyQp, ModifySrq, MrReply, MwReply,
    PdReply, QpReply, QueryDevice, RegMr, ReregMr, ResizeCq, SrqReply,
};

use super::{Memory, Outcome, State, adapter};

/// Requests that any daemon with room grants without further data.
const GRANTED: [(u32, fn() -> Outcome); 11] = [
    (DeallocPd::CODE, done::<DeallocPd>),
    (DeregMr::CODE, done::<DeregMr>),
    (DeallocMw::CODE, done::<DeallocMw>),
    (DestroyChannel::CODE, done::<DestroyChannel>),
    (DestroyCq::CODE, done::<DestroyCq>),
    (ModifySrq::CODE, done::<ModifySrq>),
    (DestroySrq::CODE, done::<DestroySrq>),
    (ModifyQp::CODE, done::<ModifyQp>),
    (DestroyQp::CODE, done::<DestroyQp>),
    (AttachMcast::CODE, done::<AttachMcast>),
    (DetachMcast::CODE, done::<DetachMcast>),
];

/// Added to a handle: the key by which peers and work requests name the object.
pub(crate) const LKEY: u32 = 0x1000;
pub(crate) const RKEY: u32 = 0x2000;
pub(crate) const NUMBER: u32 = 0x3000;

/// Doorbells are numbered from here.
const FIRST_DOORBELL: u32 = 7;

pub(super) fn usual(state: &mut State, request: &Request) -> Outcome {
    match request.code() {
        Hello::CODE => hello(state),
        QueryDevice::CODE => body::<QueryDevice>(&DeviceReply::default()),
        AllocPd::CODE => body::<AllocPd>(&PdReply { pd: state.handle() }),
        RegMr::CODE => body::<RegMr>(&region(state.handle())),
        ReregMr::CODE => body::<ReregMr>(&MrReply::default()),
        AllocMw::CODE => window(state),
        CreateChannel::CODE => channel(state),
        CreateCq::CODE => create_cq(state, &parse(request)?),
        ResizeCq::CODE => resize_cq(state, &parse(request)?),
        CreateSrq::CODE => create_srq(state, &parse(request)?),
        CreateQp::CODE => create_qp(state, &parse(request)?),
        code => match GRANTED.iter().find(|(granted, _)| *granted == code) {
            Some((_, done)) => done(),
            None => Err(Errno::OPNOTSUPP),
        },
    }
}

fn parse<T: Call>(request: &Request) -> Result<T, Errno> {
    request.parse().ok_or(Errno::INVAL)
}

fn body<T: Call>(reply: &T::Reply) -> Outcome {
    Ok(Answer::new::<T>(reply, Vec::new()))
}

fn done<T: Call<Reply = Done>>() -> Outcome {
    body::<T>(&Done {})
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    pipe_with(PipeFlags::CLOEXEC)
}

fn memory(bytes: u32) -> Result<(Arc<Area>, OwnedFd), Errno> {
    let (area, fd) = Area::create("test", bytes as usize).map_err(|_| Errno::NOMEM)?;
    Ok((Arc::new(area), fd))
}

fn hello(state: &mut State) -> Outcome {
    let reply = HelloReply {
        version: VERSION,
        page_bytes: PAGE_BYTES as u32,
        adapter: adapter(),
    };
    let page = state.doorbells.page().try_clone_to_owned();
    let wake = state.doorbells.wake().try_clone_to_owned();
    let (read, write) = pipe()?;
    state.events = Some(write);
    let mut fds = vec![
        page.map_err(|_| Errno::MFILE)?,
        wake.map_err(|_| Errno::MFILE)?,
        read,
    ];
    fds.extend(state.page.take());
    Ok(Answer::new::<Hello>(&reply, fds))
}

fn region(mr: u32) -> MrReply {
    MrReply {
        mr,
        lkey: LKEY + mr,
        rkey: RKEY + mr,
    }
}

fn window(state: &mut State) -> Outcome {
    let mw = state.handle();
    let rkey = RKEY + mw;
    body::<AllocMw>(&MwReply { mw, rkey })
}

fn channel(state: &mut State) -> Outcome {
    let channel = state.handle();
    let (read, write) = pipe()?;
    state.channels.push(write);
    let reply = ChannelReply { channel };
    Ok(Answer::new::<CreateChannel>(&reply, vec![read]))
}

fn create_cq(state: &mut State, request: &CreateCq) -> Outcome {
    let plan = CqPlan::new(request.entries, true).ok_or(Errno::INVAL)?;
    let (area, fd) = memory(plan.bytes)?;
    let handle = state.handle();
    state.cqs.push(Memory {
        handle,
        cookie: request.cookie,
        area,
        plan,
    });
    Ok(Answer::new::<CreateCq>(&cq_reply(handle, &plan), vec![fd]))
}

fn cq_reply(cq: u32, plan: &CqPlan) -> CqReply {
    CqReply {
        cq,
        bytes: plan.bytes,
        ring: plan.ring,
    }
}

/// Makes a new, empty ring: moving the entries of the old one is left to the test. The library may not read how the old
/// ring was armed any more, since its memory may be another queue's.
fn resize_cq(state: &mut State, request: &ResizeCq) -> Outcome {
    let plan = CqPlan::new(request.entries, true).ok_or(Errno::INVAL)?;
    let (area, fd) = memory(plan.bytes)?;
    let found = state.cqs.iter_mut().find(|cq| cq.handle == request.cq);
    let cq = found.ok_or(Errno::NOENT)?;
    let armed = cq.plan.ring.header as usize + cq_header::ARMED;
    cq.area.u32(armed).store(0, Relaxed);
    (cq.area, cq.plan) = (area, plan);
    Ok(Answer::new::<ResizeCq>(
        &cq_reply(request.cq, &plan),
        vec![fd],
    ))
}

fn create_srq(state: &mut State, request: &CreateSrq) -> Outcome {
    let plan = SrqPlan::new(request.max_wr, request.max_sge).ok_or(Errno::INVAL)?;
    let (area, fd) = memory(plan.bytes)?;
    let srq = state.handle();
    state.srqs.push(Memory {
        handle: srq,
        cookie: request.cookie,
        area,
        plan,
    });
    let reply = SrqReply {
        srq,
        bytes: plan.bytes,
        number: NUMBER + srq,
        max_sge: plan.max_sge,
        ring: plan.ring,
    };
    Ok(Answer::new::<CreateSrq>(&reply, vec![fd]))
}

fn create_qp(state: &mut State, request: &CreateQp) -> Outcome {
    let plan = QpPlan::new(&request.capacity, request.has_srq != 0).ok_or(Errno::INVAL)?;
    let (area, fd) = memory(plan.bytes)?;
    let qp = state.handle();
    let reply = QpReply {
        qp,
        qp_num: NUMBER + qp,
        doorbell: FIRST_DOORBELL + state.queue_pairs.len() as u32,
        bytes: plan.bytes,
        capacity: plan.capacity,
        send: plan.send,
        recv: plan.recv,
    };
    state.queue_pairs.push(Memory {
        handle: qp,
        cookie: request.cookie,
        area,
        plan,
    });
    Ok(Answer::new::<CreateQp>(&reply, vec![fd]))
}
