//! The BTH's operation code and the table of what each one means (IBTA 9.2.1; CNP: annex
//! A17.9.3).
//!
//! Which extension headers follow, whether a message starts or ends, which side speaks: code asks
//! the table. Left out: reliable datagrams and XRC, which the verbs of this project do not offer,
//! and FLUSH and ATOMIC WRITE, which stock drivers of the guests cannot ask for.

mod table;

pub use table::OPCODES;

/// Operation code; may be one that the table does not know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Opcode(pub u8);

/// Which kind of queue pair an opcode is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification, for whichever kind sent the marked packet.
    Cnp,
}

/// What a packet does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ, the request.
    Read,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// Data of an RDMA READ.
    ReadResponse,
    /// Acknowledgement, positive or negative.
    Acknowledge,
    /// Acknowledgement of an atomic, with the word as it was.
    AtomicAcknowledge,
    /// Congestion notification.
    Congestion,
}

impl Operation {
    /// Whether the requester speaks (IBTA 9.4); otherwise the responder answers.
    pub const fn is_request(self) -> bool {
        matches!(
            self,
            Self::Send | Self::Write | Self::Read | Self::CompareSwap | Self::FetchAdd
        )
    }
}

/// Where in its message a packet stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Position {
    /// First of several.
    First,
    /// Between first and last.
    Middle,
    /// Last of several.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// Position of a packet that starts its message or not, and ends it or not.
    pub const fn new(starts: bool, ends: bool) -> Self {
        match (starts, ends) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }

    /// Whether a message starts here.
    pub const fn starts(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends here.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// Which extension headers follow the BTH, in their order on the wire (IBTA 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Carries {
    /// None.
    Nothing,
    /// ImmDt.
    Immediate,
    /// IETH.
    Invalidate,
    /// RETH.
    Remote,
    /// RETH, ImmDt.
    RemoteImmediate,
    /// AtomicETH.
    Atomic,
    /// AETH.
    Ack,
    /// AETH, AtomicAckETH.
    AtomicAck,
    /// DETH.
    Datagram,
    /// DETH, ImmDt.
    DatagramImmediate,
    /// The reserved bytes of a CNP.
    Cnp,
}

/// What the table knows of one opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpcodeInfo {
    /// The code.
    pub opcode: Opcode,
    /// Name as in the specification.
    pub name: &'static str,
    /// Kind of queue pair.
    pub service: Service,
    /// What it does.
    pub operation: Operation,
    /// Where in the message it stands.
    pub position: Position,
    /// Extension headers.
    pub carries: Carries,
    /// Whether payload may follow.
    pub payload: bool,
}

impl Opcode {
    /// What the code means; `None` if the table does not have it.
    pub fn info(self) -> Option<&'static OpcodeInfo> {
        OPCODES.get(usize::from(table::INDEX[usize::from(self.0)]))
    }

    /// The opcode that does `operation` at `position` with the given headers, if there is one.
    pub fn find(
        service: Service,
        operation: Operation,
        position: Position,
        carries: Carries,
    ) -> Option<Self> {
        let row = table::BY_MEANING[table::meaning(service, operation, position, carries)];
        OPCODES.get(usize::from(row)).map(|info| info.opcode)
    }
}

#[cfg(test)]
mod tests;
