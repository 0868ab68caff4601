//! Answers: each is given once, also if this process ends and another one goes on.
//!
//! ```text
//!   request in the socket ──carried out──► answer recorded ──► sent ──► request taken from the socket
//! ```
//! A process that finds the request there finds its answer, too, and repeats it. The library recognises it by its
//! number.

use std::os::fd::AsFd;

use rustix::io::Errno;
use vrdma_provider::daemon::{self, Answer};
use vrdma_provider::message::Header;

use super::{Adapters, Here, Received};
use crate::receive::{Taking, consume};
use crate::session::{Answered, Session};

/// Gives an answer, recorded first if another process would go on for this one.
pub(super) fn give(
    session: &mut Session,
    here: Here<'_>,
    adapters: &mut impl Adapters,
    header: Header,
    answer: Result<Answer, Errno>,
) -> Result<Received, Errno> {
    let answered = Answered { header, answer };
    if let Some((port, owner)) = session.open
        && let Some(process) = adapters.at(port)
    {
        process.record_answer(owner, header, &answered.answer);
        process.commit_records();
    }
    // The descriptors of the answer before may be closed: no record names them any more.
    session.answered = Some(answered);
    finish(session, here)
}

/// Sends the answer, and takes its request from the socket.
pub(super) fn finish(session: &mut Session, here: Here<'_>) -> Result<Received, Errno> {
    let Some(Answered { header, answer }) = &session.answered else {
        return Ok(Received::Nothing);
    };
    let answer = answer.as_ref().map_err(|errno| *errno);
    daemon::send_answer(session.as_fd(), *header, answer)?;
    match here.taking {
        Taking::WhenAnswered => consume(session.as_fd(), &session.user().tenant)?,
        Taking::AtOnce => session.answered = None,
    }
    Ok(Received::Answered)
}
