//! A CM datagram: MAD header and message (IBTA 12.6.1; codes: 16.7.3).

use crate::bits::Bits;
use crate::cm::{Drep, Dreq, MESSAGE_LEN, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq};
use crate::field::get;
use crate::format::{Format, Malformed, fixed_format, view};
use crate::mad::{Mad, MadClass, MadView};

/// Version of the class (IBTA 16.7.1).
const CLASS_VERSION: u8 = 2;

/// The only method: messages have no answers on the MAD level (IBTA 16.7.2).
const SEND: Bits<7> = Bits::low(3);

view! {
    /// View of a CM datagram.
    CmMadView[256] {
        /// The MAD header.
        header(b) -> MadView<'a> {
            MadView::new(b).expect("a datagram is longer than its header")
        }
        /// The message.
        data(b) -> [u8; MESSAGE_LEN] { get(b, Mad::LEN) }
    }
}

/// Value of a CM datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmMad {
    /// Is the same in repetitions of a message; the answer has its own (IBTA 12.7.1).
    pub transaction: u64,
    /// The message.
    pub message: Message,
}

macro_rules! messages {
    ($($(#[$doc:meta])* $code:literal $message:ident;)*) => {
        /// Message of a CM datagram.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Message {
            $($(#[$doc])* $message($message),)*
        }

        impl Message {
            /// Returns the message's code in the MAD header.
            pub const fn attribute(&self) -> u16 {
                match self {
                    $(Self::$message(_) => $code,)*
                }
            }

            fn parse(attribute: u16, data: &[u8]) -> Result<Self, Malformed> {
                match attribute {
                    $($code => $message::parse(data).map(Self::$message),)*
                    _ => Err(Malformed::Code),
                }
            }

            fn emit(&self, buffer: &mut [u8]) {
                match self {
                    $(Self::$message(message) => message.emit(buffer),)*
                }
            }
        }
    };
}

messages! {
    /// Request for communication.
    0x10 Req;
    /// Message received, an answer will follow.
    0x11 Mra;
    /// Rejection.
    0x12 Rej;
    /// Reply to a request.
    0x13 Rep;
    /// Ready to use.
    0x14 Rtu;
    /// Request for disconnection.
    0x15 Dreq;
    /// Reply to a request for disconnection.
    0x16 Drep;
    /// Request to resolve a service.
    0x17 SidrReq;
    /// Reply to a request to resolve a service.
    0x18 SidrRep;
}

impl CmMad {
    fn header(&self) -> Mad {
        Mad {
            class: MadClass::COMMUNICATION,
            class_version: CLASS_VERSION,
            response: false,
            method: SEND,
            status: 0,
            class_specific: 0,
            transaction: self.transaction,
            attribute: self.message.attribute(),
            modifier: 0,
        }
    }
}

impl Format for CmMad {
    fixed_format!(CmMadView, "CM MAD");

    fn from_view(view: CmMadView<'_>) -> Result<Self, Malformed> {
        let header = Mad::from_view(view.header())?;
        if header.class != MadClass::COMMUNICATION || header.method != SEND {
            return Err(Malformed::Code);
        }
        if header.class_version != CLASS_VERSION {
            return Err(Malformed::Version);
        }
        Ok(Self {
            transaction: header.transaction,
            message: Message::parse(header.attribute, &view.as_bytes()[Mad::LEN..])?,
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        let (header, data) = buffer.split_at_mut(Mad::LEN);
        self.header().emit(header);
        self.message.emit(data);
    }
}
