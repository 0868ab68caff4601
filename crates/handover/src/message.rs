//! What the two ends say when they have a session: JSON, and then the context as it is.

use serde::{Deserialize, Serialize};
use vrdma_api::{ArrivedContext, CONTEXT_BYTES_MAX, Name, Ticket};

use crate::session::Broken;

/// Characters of a sentence that are told.
const SENTENCE_CHARS_MAX: usize = 1000;

/// What the source wants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The adapter, which has the same name on both hosts.
    pub adapter: Name,
    /// What the context is expected with.
    pub ticket: Ticket,
    /// Bytes of the context that follows; 0 to ask only whether it is expected.
    pub bytes: u64,
}

/// What the destination says to it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The context may come.
    Expected,
    /// It is kept.
    Arrived(ArrivedContext),
    /// Not so, and why: a sentence.
    Refused(String),
}

impl Request {
    /// As a frame says it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// From what a frame said.
    ///
    /// # Errors
    /// It is no request.
    pub fn decode(said: &[u8]) -> Result<Self, Broken> {
        serde_json::from_slice(said).map_err(|_| Broken)
    }
}

impl Answer {
    /// With as much of the sentence as is told.
    #[must_use]
    pub fn refused(sentence: &str) -> Self {
        Self::Refused(sentence.chars().take(SENTENCE_CHARS_MAX).collect())
    }

    /// As a frame says it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// From what a frame said.
    ///
    /// # Errors
    /// It is no answer.
    pub fn decode(said: &[u8]) -> Result<Self, Broken> {
        serde_json::from_slice(said).map_err(|_| Broken)
    }
}

/// Names, numbers and texts are always JSON.
fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// A context that is coming. It takes memory as it comes, whatever was announced.
#[derive(Debug)]
pub struct Incoming {
    context: Vec<u8>,
    bytes: usize,
}

impl Incoming {
    /// So many bytes were announced.
    ///
    /// # Errors
    /// A sentence: no context is so long.
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

    /// Whether there is more to come.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.context.len() == self.bytes
    }

    /// The next piece.
    ///
    /// # Errors
    /// Nothing is in it, or more than was announced.
    pub fn take(&mut self, piece: &[u8]) -> Result<(), Broken> {
        if piece.is_empty() || piece.len() > self.bytes - self.context.len() {
            return Err(Broken);
        }
        self.context.extend_from_slice(piece);
        Ok(())
    }

    /// The context, once it is whole.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.context
    }
}
