//! The trace of a run, line by line, if it is kept.

use vrdma_verbs::Time;
use vrdma_wire::{Extension, NoticePacket, Packet};

/// Lines and frames of a run; none are made unless they are kept.
#[derive(Default)]
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
    frames: Vec<(Time, Vec<u8>)>,
}

impl Trace {
    pub(crate) fn new(kept: bool) -> Self {
        Self {
            lines: kept.then(Vec::new),
            frames: Vec::new(),
        }
    }

    pub(crate) fn say(&mut self, now: Time, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let (whole, rest) = (now.0 / 1_000_000, now.0 % 1_000_000);
            lines.push(format!("{whole:6}.{rest:06} ms  {}", line()));
        }
    }

    /// Keeps a frame as its sender made it.
    pub(crate) fn keep(&mut self, now: Time, frame: &[u8]) {
        if self.lines.is_some() {
            self.frames.push((now, frame.to_vec()));
        }
    }

    pub(crate) fn into_parts(self) -> (Vec<String>, Vec<(Time, Vec<u8>)>) {
        (self.lines.unwrap_or_default(), self.frames)
    }
}

/// Describes a frame in one line.
pub(crate) fn describe(frame: &[u8]) -> String {
    if let Ok(packet) = NoticePacket::parse(frame) {
        return format!("{:?}", packet.notice);
    }
    match Packet::dissect(frame) {
        Ok(packet) => describe_packet(&packet),
        Err(_) => format!("{} bytes that are no RoCEv2 packet", frame.len()),
    }
}

/// Describes a packet in one line.
pub(crate) fn describe_packet(packet: &Packet<'_>) -> String {
    let (bth, info) = (packet.bth(), packet.info());
    let extension = match packet.extension() {
        Extension::Ack(aeth) => format!(" {:?} msn {}", aeth.syndrome, aeth.msn.get()),
        Extension::Remote(reth) => format!(" of {} bytes", reth.length),
        Extension::RemoteImmediate(reth, _) => format!(" of {} bytes, immediate", reth.length),
        Extension::Immediate(_) => " immediate".to_owned(),
        _ => String::new(),
    };
    let asks = if bth.ack_request { ", asks" } else { "" };
    format!(
        "{:?} {:?} {:?} to QP {:#x} PSN {:#x}{extension} {} bytes{asks}",
        info.service,
        info.operation,
        info.position,
        bth.destination.get(),
        bth.psn.get(),
        packet.payload().len(),
    )
}
