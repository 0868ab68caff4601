//! `VFIO_USER_VERSION`: version numbers, and capabilities as JSON.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, IntoBytes};

use super::layout::Version;
use super::{DMA_PAGE_SIZE, MAX_DATA, MAX_DMA_MAPS, MAX_MESSAGE_FDS, Refusal};

/// The only major version.
const MAJOR: u16 = 0;

/// The minor version in the answer, as in QEMU 11: at most any proposed one.
const MINOR: u16 = 0;

/// The capabilities known here; others are ignored, and an absent one has the default of the specification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Most descriptors that the sender accepts in one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_msg_fds: Option<u64>,
    /// Most bytes that the sender accepts in one transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_data_xfer_size: Option<u64>,
    /// Most DMA mappings at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_dma_maps: Option<u64>,
    /// Page sizes of DMA mappings, or'ed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pgsizes: Option<u64>,
    /// Whether `REGION_WRITE_MULTI` may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_multiple: Option<bool>,
}

impl Capabilities {
    /// Most bytes that may be requested from this client in one DMA transfer.
    pub fn max_transfer(&self) -> u32 {
        let theirs = self.max_data_xfer_size.unwrap_or(1 << 20);
        u32::try_from(theirs).map_or(MAX_DATA, |theirs| theirs.min(MAX_DATA))
    }

    /// The server's answer. It names only capabilities that the client named, as the specification demands. That also
    /// makes it no longer than the request, into whose buffer QEMU reads the reply.
    fn answer(&self) -> Self {
        Capabilities {
            max_msg_fds: self.max_msg_fds.and(Some(MAX_MESSAGE_FDS as u64)),
            max_data_xfer_size: self.max_data_xfer_size.and(Some(u64::from(MAX_DATA))),
            max_dma_maps: self.max_dma_maps.and(Some(MAX_DMA_MAPS)),
            pgsizes: self.pgsizes.and(Some(DMA_PAGE_SIZE)),
            write_multiple: self.write_multiple,
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct VersionData {
    capabilities: Capabilities,
}

/// The client's proposal, whose major version is the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRequest {
    /// `None` when the client sent no JSON text, and so cannot receive any.
    capabilities: Option<Capabilities>,
}

impl VersionRequest {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, Refusal> {
        let (raw, text) = Version::ref_from_prefix(payload)
            .map_err(|_| Refusal::invalid("the version message has no version"))?;
        if raw.major.get() != MAJOR {
            return Err(Refusal {
                errno: Errno::PROTONOSUPPORT,
                reason: "only major version 0 of vfio-user is spoken here",
            });
        }
        Ok(VersionRequest {
            capabilities: parse_text(text)?,
        })
    }

    /// Capabilities of the client.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities.unwrap_or_default()
    }

    /// The payload of the reply.
    pub fn reply(&self) -> Vec<u8> {
        let version = Version {
            major: MAJOR.into(),
            minor: MINOR.into(),
        };
        let mut payload = version.as_bytes().to_vec();
        if let Some(theirs) = self.capabilities {
            let data = VersionData {
                capabilities: theirs.answer(),
            };
            serde_json::to_writer(&mut payload, &data).expect("numbers always make JSON text");
            payload.push(0);
        }
        payload
    }
}

fn parse_text(text: &[u8]) -> Result<Option<Capabilities>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    let json = text
        .strip_suffix(&[0])
        .ok_or(Refusal::invalid("the version text does not end with a NUL"))?;
    serde_json::from_slice::<VersionData>(json)
        .map(|data| Some(data.capabilities))
        .map_err(|_| Refusal::invalid("the version text is not the JSON object it should be"))
}
