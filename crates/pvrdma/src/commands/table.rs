//! The table of commands: the function of each, and whether the driver waits for the response interrupt.

use super::{Answer, Body, Errno, Outcome, Reply, bind, context, cq, mr, pd, port, qp, srq};
use crate::abi::command::Command;
use crate::adapter::{Adapter, Turn};

type AtOnce = fn(&mut Adapter, Turn<'_, '_>, &Body) -> Result<Reply, Errno>;
type InPieces = fn(&mut Adapter, Turn<'_, '_>, &Body) -> Result<Answer, Errno>;

/// The function of a command.
enum Run {
    /// A short command.
    AtOnce(AtOnce),
    /// A command that may be long.
    InPieces(InPieces),
}

/// One row of the table.
pub(super) struct Entry {
    code: Command,
    pub(super) name: &'static str,
    waits: bool,
    run: Run,
}

impl Entry {
    pub(super) fn run(
        &self,
        adapter: &mut Adapter,
        turn: Turn<'_, '_>,
        body: &Body,
    ) -> Result<Answer, Errno> {
        match self.run {
            Run::AtOnce(run) => run(adapter, turn, body).map(Answer::Now),
            Run::InPieces(run) => run(adapter, turn, body),
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        match self.waits {
            true => Outcome::Answered,
            false => Outcome::Done,
        }
    }
}

const fn in_pieces(code: Command, name: &'static str, run: InPieces) -> Entry {
    Entry {
        code,
        name,
        waits: true,
        run: Run::InPieces(run),
    }
}

const fn waited(code: Command, name: &'static str, run: AtOnce) -> Entry {
    let (waits, run) = (true, Run::AtOnce(run));
    Entry {
        code,
        name,
        waits,
        run,
    }
}

const fn unwaited(code: Command, name: &'static str, run: AtOnce) -> Entry {
    let (waits, run) = (false, Run::AtOnce(run));
    Entry {
        code,
        name,
        waits,
        run,
    }
}

/// The rows, in the order of their codes.
static TABLE: [Entry; 21] = [
    waited(Command::QueryPort, "QUERY_PORT", port::query),
    waited(Command::QueryPkey, "QUERY_PKEY", port::query_pkey),
    waited(Command::CreatePd, "CREATE_PD", pd::create),
    unwaited(Command::DestroyPd, "DESTROY_PD", pd::destroy),
    in_pieces(Command::CreateMr, "CREATE_MR", mr::create),
    unwaited(Command::DestroyMr, "DESTROY_MR", mr::destroy),
    waited(Command::CreateCq, "CREATE_CQ", cq::create),
    waited(Command::ResizeCq, "RESIZE_CQ", cq::resize),
    unwaited(Command::DestroyCq, "DESTROY_CQ", cq::destroy),
    waited(Command::CreateQp, "CREATE_QP", qp::create),
    waited(Command::ModifyQp, "MODIFY_QP", qp::modify),
    waited(Command::QueryQp, "QUERY_QP", qp::query),
    unwaited(Command::DestroyQp, "DESTROY_QP", qp::destroy),
    waited(Command::CreateUc, "CREATE_UC", context::create),
    unwaited(Command::DestroyUc, "DESTROY_UC", context::destroy),
    unwaited(Command::CreateBind, "CREATE_BIND", bind::create),
    unwaited(Command::DestroyBind, "DESTROY_BIND", bind::destroy),
    waited(Command::CreateSrq, "CREATE_SRQ", srq::create),
    unwaited(Command::ModifySrq, "MODIFY_SRQ", srq::modify),
    waited(Command::QuerySrq, "QUERY_SRQ", srq::query),
    unwaited(Command::DestroySrq, "DESTROY_SRQ", srq::destroy),
];

/// The row for a code.
pub(super) fn entry(code: u32) -> Option<&'static Entry> {
    let entry = TABLE.get(code as usize)?;
    (entry.code as u32 == code).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_codes() {
        for code in 0..TABLE.len() as u32 {
            assert!(entry(code).is_some(), "{code}");
        }
        assert!(entry(TABLE.len() as u32).is_none());
    }
}
