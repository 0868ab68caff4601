//! The BTH's operation code and the table of what each code means (IBTA 9.2.1; CNP: annex A17.9.3).
//!
//! The table says which extension headers follow, whether a message starts or ends, and which side sends. Left out:
//! reliable datagrams and XRC, which the verbs of this project do not offer, and FLUSH and ATOMIC WRITE, which stock
//! guest drivers cannot request.

mod table;

pub use table::OPCODES;

/// Operation code, which the table may not know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Opcode(pub u8);

/// Kind of queue pair that an opcode is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification, for the kind of queue pair that sent the marked packet.
    Cnp,
}

/// The operation of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ request.
    Read,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// Data of an RDMA READ.
    ReadResponse,
    /// Acknowledgement, positive or negative.
    Acknowledge,
    /// Acknowledgement of an atomic, with the word's value before it.
    AtomicAcknowledge,
    /// Congestion notification.
    Congestion,
}

impl Operation {
    /// Whether the requester sends it (IBTA 9.4); otherwise the responder does.
    pub const fn is_request(self) -> bool {
        matches!(
            self,
            Self::Send | Self::Write | Self::Read | Self::CompareSwap | Self::FetchAdd
        )
    }
}

/// Position of a packet in its message.
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
    /// Returns the position of a packet that starts its message or not, and ends it or not.
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

/// Extension headers that follow the BTH, in their order on the wire (IBTA 5.2).
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

/// The table's row of one opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpcodeInfo {
    /// The code.
    pub opcode: Opcode,
    /// Name as in the specification.
    pub name: &'static str,
    /// Kind of queue pair.
    pub service: Service,
    /// The operation.
    pub operation: Operation,
    /// Position in the message.
    pub position: Position,
    /// Extension headers.
    pub carries: Carries,
    /// Whether payload may follow.
    pub payload: bool,
}

impl Opcode {
    /// Returns the meaning of the code; `None` if the table does not have it.
    pub fn info(self) -> Option<&'static OpcodeInfo> {
        OPCODES.get(usize::from(table::INDEX[usize::from(self.0)]))
    }

    /// Returns the opcode that does `operation` at `position` with the given headers, if there is one.
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
