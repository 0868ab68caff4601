//! Messages of the two ends once they have a session: JSON, and then the context as it is.

use serde::{Deserialize, Serialize};
use vrdma_api::{ArrivedContext, CONTEXT_BYTES_MAX, Name, Ticket};

use crate::session::Broken;

/// Most characters of a sentence that are sent.
const SENTENCE_CHARS_MAX: usize = 1000;

/// A request of the source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The adapter, which has the same name on both hosts.
    pub adapter: Name,
    /// The ticket with which the context is expected.
    pub ticket: Ticket,
    /// Bytes of the context that follows; 0 to ask only whether it is expected.
    pub bytes: u64,
}

/// The destination's answer to a request or a context.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The context is expected.
    Expected,
    /// The context has arrived and is kept.
    Arrived(ArrivedContext),
    /// The request or context is refused; the sentence says why.
    Refused(String),
}

impl Request {
    /// Encodes the request for a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes a request from a frame.
    ///
    /// # Errors
    /// The bytes are no request.
    pub fn decode(said: &[u8]) -> Result<Self, Broken> {
        serde_json::from_slice(said).map_err(|_| Broken)
    }
}

impl Answer {
    /// Makes a refusal with as much of the sentence as is sent.
    #[must_use]
    pub fn refused(sentence: &str) -> Self {
        Self::Refused(sentence.chars().take(SENTENCE_CHARS_MAX).collect())
    }

    /// Encodes the answer for a frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes an answer from a frame.
    ///
    /// # Errors
    /// The bytes are no answer.
    pub fn decode(said: &[u8]) -> Result<Self, Broken> {
        serde_json::from_slice(said).map_err(|_| Broken)
    }
}

/// Encodes a value. Names, numbers and texts can always be written as JSON.
fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// A context that is arriving. It takes memory as bytes come, whatever length was announced.
#[derive(Debug)]
pub struct Incoming {
    context: Vec<u8>,
    bytes: usize,
}

impl Incoming {
    /// Begins a context of the announced length.
    ///
    /// # Errors
    /// A sentence: the length is more than any context may have.
    pub fn new(bytes: u64) -> Result<Self, String> {
        let fits = usize::try_from(bytes).ok();
        let fits = fits.filter(|bytes| *bytes <= CONTEXT_BYTES_MAX);
        let bytes = fits.ok_or_else(|| {
            format!("the context has {bytes} bytes, and at most {CONTEXT_BYTES_MAX} are taken")
        })?;
        Ok(Self {
            context: Vec::new(),
            bytes,
        })
    }

    /// Whether all of the context has come.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.context.len() == self.bytes
    }

    /// Adds the next piece.
    ///
    /// # Errors
    /// The piece is empty, or longer than what is left of the announced length.
    pub fn take(&mut self, piece: &[u8]) -> Result<(), Broken> {
        if piece.is_empty() || piece.len() > self.bytes - self.context.len() {
            return Err(Broken);
        }
        self.context.extend_from_slice(piece);
        Ok(())
    }

    /// Returns the context, once it is whole.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.context
    }
}
