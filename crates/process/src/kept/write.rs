//! Writing records when objects come, change and go.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use prost::Message;
use rustix::io::Errno;
use vrdma_adapter::{Intents, Journal};
use vrdma_provider::daemon::Answer;
use vrdma_provider::message::{Header, QpCapacity, RegMr};
use vrdma_verbs::Intent;
use vrdma_verbs::object::{CqId, MrId, Owner, PdId, QpId, SrqId};
use vrdma_verbs::saved::Piece;

use super::Kind;
use super::record::{self, Backing};
use crate::Process;
use crate::requests::backing::{Mapped, is_filled_by_owner};

/// The place of a region: its name in the engine's record of the region.
pub(crate) struct PlaceName(record::RegionRecord);

impl PlaceName {
    /// The place of a region that a client registers: in a file of which a part is mapped here, or at its addresses.
    pub(crate) fn of(
        owner: Owner,
        request: &RegMr,
        file: Option<(&OwnedFd, &Mapped)>,
        writable: bool,
    ) -> Self {
        let client = |is_filled_by_owner| record::Client {
            address: request.address,
            length: request.length,
            is_filled_by_owner,
        };
        let file_with = |fd: &OwnedFd, lead| record::File {
            descriptor: fd.as_raw_fd(),
            offset: request.file.offset,
            length: request.file.length,
            lead,
            writable,
        };
        let backing = match file {
            None => Backing::Client(client(is_filled_by_owner(request))),
            Some((fd, Mapped::All { lead })) => Backing::File(file_with(fd, *lead)),
            Some((fd, Mapped::Part(part))) => Backing::Partly(record::Partly {
                client: client(false),
                file: file_with(fd, 0),
                start: part.start,
            }),
        };
        Self::new(owner, backing, request.adoption)
    }

    fn new(owner: Owner, backing: Backing, adoption: u32) -> Self {
        Self(record::RegionRecord {
            owner: owner.0,
            id: 0,
            backing: Some(backing),
            adoption,
        })
    }
}

/// The circumstances in which a client came.
pub(crate) struct Arrival<'a> {
    /// The client's socket.
    pub(crate) socket: BorrowedFd<'a>,
    /// Address of its nonce, and the nonce.
    pub(crate) said: (u64, u64),
    /// The adapter by whose socket it came.
    pub(crate) only: Option<&'a str>,
}

/// Number of a channel among those of all clients.
pub(super) fn channel_id(owner: Owner, channel: u32) -> u32 {
    owner.0 << 12 | channel
}

/// The result of writing a record: an object without a record would be lost to a later process.
pub(super) fn recorded(done: bool) -> Result<(), Errno> {
    done.then_some(()).ok_or(Errno::NOMEM)
}

impl Process {
    /// Whether another process can go on for this one.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    pub(super) fn record(
        &mut self,
        kind: Kind,
        id: u32,
        record: &impl Message,
    ) -> Result<(), Errno> {
        let Some(recorder) = &mut self.recorder else {
            return Ok(());
        };
        recorded(recorder.put(kind as u16, id, &record.encode_to_vec()))
    }

    /// Removes a record. Descriptors that it names stay open until this is committed: see [`discard`](Self::discard).
    pub(crate) fn forget_record(&mut self, kind: Kind, id: u32) {
        if let Some(recorder) = &mut self.recorder {
            recorder.forget(kind as u16, id);
        }
    }

    /// Drops an object once no record names its descriptors: other files may have their numbers then.
    pub(crate) fn discard(&mut self, object: impl Send + 'static) {
        if self.is_recorded() {
            self.discarded.push(Box::new(object));
        }
    }

    pub(crate) fn record_adapter(&mut self) {
        let record = record::Adapter {
            name: self.spec.name.to_string(),
            frame: self.core.hca.save_frame(),
        };
        let written = self.record(Kind::Adapter, 0, &record);
        self.give_up_unless(written);
    }

    /// Records a client that has come.
    pub(crate) fn record_context(&mut self, owner: Owner, came: &Arrival<'_>) -> Result<(), Errno> {
        if self.recorder.is_none() {
            return Ok(());
        }
        let context = self.contexts.get(owner.0).ok_or(Errno::NOENT)?;
        let record = record::Context {
            owner: owner.0,
            socket: came.socket.as_raw_fd(),
            memory: context.memory.descriptor().as_raw_fd(),
            doorbell_page: context.doorbells.page().as_raw_fd(),
            doorbell_event: context.doorbells.wake().as_raw_fd(),
            events: context.events.descriptor().as_raw_fd(),
            grants: context.grants_page.as_ref().map(AsRawFd::as_raw_fd),
            nonce_address: came.said.0,
            nonce: came.said.1,
            only: came.only.map(str::to_owned),
            encloses: context.encloses,
        };
        self.record(Kind::Context, owner.0, &record)
    }

    pub(crate) fn record_channel(&mut self, owner: Owner, channel: u32) -> Result<(), Errno> {
        let context = self.contexts.get(owner.0).ok_or(Errno::NOENT)?;
        let pipe = context.channels.get(channel).ok_or(Errno::NOENT)?;
        let record = record::Channel {
            owner: owner.0,
            channel,
            pipe: pipe.descriptor().as_raw_fd(),
        };
        self.record(Kind::Channel, channel_id(owner, channel), &record)
    }

    /// Records an answer. If there is no room, the answer may get lost with this process.
    pub(crate) fn record_answer(
        &mut self,
        owner: Owner,
        header: Header,
        answer: &Result<Answer, Errno>,
    ) {
        if self.recorder.is_none() {
            return;
        }
        let good = answer.as_ref().ok();
        let fds = good.map_or(&[][..], Answer::fds);
        let record = record::Answer {
            code: header.code.into(),
            number: header.number.into(),
            errno: answer
                .as_ref()
                .err()
                .map_or(0, |errno| errno.raw_os_error()),
            body: good.map_or(Vec::new(), |answer| answer.body().to_vec()),
            descriptors: fds.iter().map(AsRawFd::as_raw_fd).collect(),
        };
        if self.record(Kind::Answer, owner.0, &record).is_err() {
            self.forget_record(Kind::Answer, owner.0);
        }
    }

    /// Removes all records: no process goes on for this adapter any more, or it is being removed.
    pub fn end_records(&mut self) {
        self.core.hca.stop_intents();
        self.recorder = None;
    }

    /// Lets the engine record each atomic before it is carried out.
    pub(crate) fn log_intents(&mut self) {
        let beside = self.recorder.as_ref().and_then(Journal::beside);
        if let Some(beside) = beside {
            let intents = Intents::new(beside, Kind::Intent as u16);
            self.core.hca.log_intents(Box::new(intents));
        }
    }

    /// Concludes the atomic that the earlier process was about to carry out: it is not repeated if it was done.
    pub(super) fn conclude(&mut self, intent: &Intent) {
        let space = self.memory();
        if self.core.hca.conclude(intent, &space.view()) {
            self.write_qp_progress(intent.qp);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.forget_all(Kind::Intent as u16);
            recorder.commit();
        }
    }

    /// Removes the records of a client that is gone, and of its channels.
    pub(crate) fn forget_context(&mut self, owner: Owner) {
        let channels = self.contexts.get(owner.0).map(|context| {
            let numbers = context.channels.iter().map(|(number, _)| number);
            numbers.collect::<Vec<_>>()
        });
        for channel in channels.unwrap_or_default() {
            self.forget_record(Kind::Channel, channel_id(owner, channel));
        }
        self.forget_record(Kind::Answer, owner.0);
        self.forget_record(Kind::Context, owner.0);
    }

    pub(crate) fn forget_channel_record(&mut self, owner: Owner, channel: u32) {
        self.forget_record(Kind::Channel, channel_id(owner, channel));
    }

    fn record_piece(&mut self, kind: Kind, id: u32, piece: Piece) -> Result<(), Errno> {
        let Some(recorder) = &mut self.recorder else {
            return Ok(());
        };
        let bytes = self.core.hca.save_piece(piece, |_| Vec::new());
        recorded(recorder.put(kind as u16, id, &bytes.ok_or(Errno::NOENT)?))
    }

    pub(crate) fn record_pd(&mut self, id: PdId) -> Result<(), Errno> {
        self.record_piece(Kind::Pd, id.0, Piece::Pd(id))
    }

    pub(crate) fn record_window(&mut self, id: u32) -> Result<(), Errno> {
        self.record_piece(Kind::Mr, id, Piece::Mr(id))
    }

    /// Records a window whose key was changed by a request. A window that is gone has no record any more, and gets
    /// none.
    pub(crate) fn write_window(&mut self, id: u32) {
        let written = self.record_window(id);
        self.give_up_unless(written);
    }

    pub(crate) fn record_mr(&mut self, id: MrId, place: &PlaceName) -> Result<(), Errno> {
        let Some(recorder) = &mut self.recorder else {
            return Ok(());
        };
        let piece = Piece::Mr(id.0);
        let place = record::RegionRecord {
            id: id.0,
            ..place.0.clone()
        };
        let name = place.encode_to_vec();
        let bytes = self.core.hca.save_piece(piece, |_| name.clone());
        recorded(recorder.put(Kind::Mr as u16, id.0, &bytes.ok_or(Errno::NOENT)?))
    }

    /// Records that a region lies elsewhere now. This is not undone: without room the records end.
    pub(crate) fn write_mr(&mut self, id: MrId, place: &PlaceName) {
        let written = self.record_mr(id, place);
        self.give_up_unless(written);
    }

    pub(crate) fn record_cq(&mut self, id: CqId) -> Result<(), Errno> {
        if self.recorder.is_none() {
            return Ok(());
        }
        let piece = self.core.hca.save_piece(Piece::Cq(id), |_| Vec::new());
        let cq = self.cqs.get(id.0).ok_or(Errno::NOENT)?;
        let record = record::Cq {
            engine: piece.ok_or(Errno::NOENT)?,
            owner: cq.owner.0,
            area: cq.memory.number(),
            entries: cq.ring.slots(),
            channel: cq.channel,
            cookie: cq.cookie,
            encloses: cq.ring.encloses(),
            offset: cq.memory.offset(),
        };
        self.record(Kind::Cq, id.0, &record)?;
        self.put_cq_progress(id)
    }

    /// Records the change of a completion queue by a request. This is not undone: without room the records end.
    pub(crate) fn write_cq(&mut self, id: CqId) {
        let written = self.record_cq(id);
        self.give_up_unless(written);
    }

    pub(crate) fn forget_cq(&mut self, id: CqId) {
        self.forget_record(Kind::Cq, id.0);
        self.forget_record(Kind::CqProgress, id.0);
    }

    pub(crate) fn record_srq(&mut self, id: SrqId) -> Result<(), Errno> {
        if self.recorder.is_none() {
            return Ok(());
        }
        let srq = self.srqs.get(id.0).ok_or(Errno::NOENT)?;
        let record = record::Srq {
            owner: srq.owner.0,
            area: srq.memory.number(),
            slots: srq.ring.slots(),
            max_sge: srq.max_sge,
            cookie: srq.cookie,
            offset: srq.memory.offset(),
        };
        self.record(Kind::Srq, id.0, &record)?;
        self.put_srq_progress(id)
    }

    pub(crate) fn forget_srq(&mut self, id: SrqId) {
        self.forget_record(Kind::Srq, id.0);
        self.forget_record(Kind::SrqProgress, id.0);
    }

    /// Records a queue pair that was made, or changed by its owner.
    pub(crate) fn record_qp(&mut self, id: QpId) -> Result<(), Errno> {
        if self.recorder.is_none() {
            return Ok(());
        }
        let piece = self.core.hca.save_piece(Piece::Qp(id), |_| Vec::new());
        let qp = self.qps.get(id.0).ok_or(Errno::NOENT)?;
        let (owner, data) = (qp.owner, qp.data.0);
        let record = record::Qp {
            engine: piece.ok_or(Errno::NOENT)?,
            owner: owner.0,
            area: qp.memory.number(),
            capacity: capacity_words(&qp.capacity).into(),
            has_srq: qp.recv.is_none(),
            cookie: qp.cookie,
            doorbell: qp.doorbell,
            data: data.0,
            data_key: qp.data.1.0,
            id: id.0,
            offset: qp.memory.offset(),
        };
        self.record(Kind::Qp, id.0, &record)?;
        self.record_mr(data, &PlaceName::new(owner, Backing::Data(id.0), 0))?;
        self.put_qp_progress(id)
    }

    /// Records the change of a queue pair by a request. This is not undone: without room the records end.
    pub(crate) fn write_qp(&mut self, id: QpId) {
        let written = self.record_qp(id);
        self.give_up_unless(written);
    }

    pub(crate) fn forget_qp(&mut self, id: QpId) {
        for kind in [Kind::Qp, Kind::QpProgress, Kind::Receive] {
            self.forget_record(kind, id.0);
        }
    }

    pub(crate) fn commit_records(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            self.core.hca.clear_intents();
            recorder.commit();
        }
        if !self.discarded.is_empty() {
            self.discarded.clear();
        }
    }
}

fn capacity_words(capacity: &QpCapacity) -> [u32; 5] {
    let QpCapacity {
        max_send_wr,
        max_recv_wr,
        max_send_sge,
        max_recv_sge,
        max_inline,
    } = *capacity;
    [
        max_send_wr,
        max_recv_wr,
        max_send_sge,
        max_recv_sge,
        max_inline,
    ]
}
