//! The helper process that opens what needs network privileges: interfaces for raw uplinks, TAPs, large socket buffers.
//!
//! ```text
//!   vrdmad, rights given up ── name of an interface ──► vrdmad --open-interfaces, started first
//!                           ◄── descriptors, or a sentence ──  one thread, CAP_NET_RAW, CAP_NET_ADMIN
//! ```
//! A daemon that has no such rights, or keeps them (`sandbox = false`), opens them itself.

mod helper;
mod message;

use std::net::IpAddr;
use std::os::fd::AsFd;

use vrdma_uplink::{Ports, Raw, Tap};
use vrdma_wire::Mac;

pub(crate) use helper::Helper;
pub use helper::serve_standard_input;
use message::{Answer, Request};

/// Opens interfaces, through the helper if there is one; see the module.
#[derive(Debug, Default)]
pub struct Interfaces {
    helper: Option<Helper>,
}

impl From<Helper> for Interfaces {
    fn from(helper: Helper) -> Self {
        Self {
            helper: Some(helper),
        }
    }
}

impl Interfaces {
    /// Whether the helper or this process has the right to open interfaces.
    pub fn can_open(&self) -> bool {
        self.helper.is_some() || crate::has_raw_right()
    }

    /// Opens both ports of a raw uplink. The error is a sentence.
    pub fn raw(&self, interface: &str) -> Result<Ports, String> {
        let Some(helper) = &self.helper else {
            return Ports::raw(interface).map_err(|error| error.to_string());
        };
        let request = Request::Raw {
            interface: interface.to_owned(),
        };
        let (_, sockets) = helper.ask(&request, &[])?;
        let sockets = sockets.try_into().map_err(|_| helper::lost())?;
        Ports::raw_over(sockets, interface).map_err(|error| error.to_string())
    }

    /// Opens the interface of an adapter of the host's own IP stack. The error is a sentence.
    pub fn tap(&self, name: &str, mac: Mac, ip: Option<IpAddr>) -> Result<Tap, String> {
        let Some(helper) = &self.helper else {
            return Tap::open(name, mac.0, ip).map_err(|error| error.to_string());
        };
        let request = Request::Tap {
            name: name.to_owned(),
            mac: mac.0,
            ip,
        };
        let (answer, fds) = helper.ask(&request, &[])?;
        let device = fds.into_iter().next().ok_or_else(helper::lost)?;
        Ok(Tap::from_parts(device, answer.is_ours))
    }

    /// Gives a socket larger buffers than an unprivileged process could.
    pub fn enlarge_buffers(&self, socket: impl AsFd) {
        // With smaller buffers the socket works, but loses more.
        if let Some(helper) = &self.helper
            && let Err(sentence) = helper.ask(&Request::Enlarge, &[socket.as_fd()])
        {
            tracing::warn!("buffers of a socket stay small: {sentence}");
        }
    }
}

/// Carries out a request in the helper. The error is a sentence.
fn carry_out(request: Request, fds: Vec<std::os::fd::OwnedFd>) -> Answer {
    let done = match request {
        Request::Raw { interface } => [(); 2]
            .map(|()| Raw::socket(&interface))
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .map(|sockets| (false, sockets))
            .map_err(|error| error.to_string()),
        Request::Tap { name, mac, ip } => Tap::open(&name, mac, ip)
            .map(Tap::into_parts)
            .map(|(device, is_ours)| (is_ours, vec![device]))
            .map_err(|error| error.to_string()),
        Request::Enlarge => {
            fds.into_iter().for_each(vrdma_uplink::enlarge_buffers);
            Ok((false, Vec::new()))
        }
    };
    Answer::of(done)
}

#[cfg(test)]
mod tests;
