//! `vrdma trace`: the packets of an adapter as a capture file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use vrdma_api::paths;
use vrdma_api_client::Client;
use vrdma_wire::pcap_header;

use crate::arguments::TraceOptions;
use crate::failure::Failure;
use crate::report::Report;

/// How often the daemon is asked. In between, it keeps up to 8 MiB.
const INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of the header before each packet of a capture.
const RECORD_BYTES: usize = 16;

pub(crate) fn run(client: &Client, options: &TraceOptions) -> Result<Report, Failure> {
    let path = paths::trace(&options.adapter);
    // The first request starts the trace, and may be refused before a file is made.
    let mut body = client.fetch(&path)?;
    let mut capture = Capture::create(&options.pcap)?;
    let end = options
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
    loop {
        capture.take(&body)?;
        let rest = end.map(|end| end.saturating_duration_since(Instant::now()));
        let pause = rest.map_or(INTERVAL, |rest| rest.min(INTERVAL));
        let interrupted = runtime.block_on(async {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => true,
                () = tokio::time::sleep(pause) => false,
            }
        });
        body = client.fetch(&path)?;
        if interrupted || rest.is_some_and(|rest| rest.is_zero()) {
            capture.take(&body)?;
            return capture.finish(options);
        }
    }
}

/// The capture file that is being written.
struct Capture {
    file: BufWriter<File>,
    packets: u64,
    dropped: u64,
}

impl Capture {
    fn create(path: &Path) -> Result<Self, Failure> {
        let cannot = |error: io::Error| {
            let path = path.display();
            Failure::new(format!(
                "cannot write {path}: {error}; name another file with --pcap"
            ))
        };
        let mut file = BufWriter::new(File::create(path).map_err(cannot)?);
        file.write_all(&pcap_header()).map_err(cannot)?;
        Ok(Self {
            file,
            packets: 0,
            dropped: 0,
        })
    }

    /// Takes an answer of the daemon: packets dropped in all, then records.
    fn take(&mut self, body: &[u8]) -> Result<(), Failure> {
        let strange = || Failure::new("the daemon's capture ends in the middle of a packet");
        let (dropped, records) = body.split_first_chunk().ok_or_else(strange)?;
        self.dropped = u64::from_be_bytes(*dropped);
        self.packets += count(records).ok_or_else(strange)?;
        self.file.write_all(records).map_err(unwritten)
    }

    fn finish(mut self, options: &TraceOptions) -> Result<Report, Failure> {
        self.file.flush().map_err(unwritten)?;
        let Self {
            packets, dropped, ..
        } = self;
        let file = options.pcap.display().to_string();
        let value = serde_json::json!({ "file": file, "packets": packets, "dropped": dropped });
        let text = format!("{packets} packets in {file}, {dropped} more came too fast");
        Ok(Report::new(&value, text))
    }
}

fn unwritten(error: io::Error) -> Failure {
    Failure::new(format!("cannot write the capture: {error}"))
}

/// Counts the packets; `None` if the last one is incomplete.
fn count(mut records: &[u8]) -> Option<u64> {
    let mut packets = 0;
    while !records.is_empty() {
        let length = records.get(8..12)?.first_chunk()?;
        let end = RECORD_BYTES + u32::from_ne_bytes(*length) as usize;
        records = records.get(end..)?;
        packets += 1;
    }
    Some(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_counted_and_cut_ones_noticed() {
        let mut record = [0u32, 0, 3, 3].map(u32::to_ne_bytes).concat();
        record.extend([1, 2, 3]);
        let two = record.repeat(2);
        assert_eq!(count(&two), Some(2));
        assert_eq!(count(&two[..two.len() - 1]), None);
        assert_eq!(count(&[]), Some(0));
    }

    #[test]
    fn a_capture_is_a_header_and_the_daemons_records() {
        let folder = tempfile::tempdir().unwrap();
        let pcap = folder.path().join("x.pcap");
        let mut capture = Capture::create(&pcap).unwrap();
        let mut body = 5u64.to_be_bytes().to_vec();
        body.extend([0u32, 0, 1, 1].map(u32::to_ne_bytes).concat());
        body.push(9);
        capture.take(&body).unwrap();
        assert!(capture.take(&[0; 3]).is_err());
        assert_eq!((capture.packets, capture.dropped), (1, 5));
        drop(capture);
        let bytes = std::fs::read(&pcap).unwrap();
        assert_eq!(bytes.len(), 24 + 17);
        assert_eq!(bytes[..24], pcap_header());
    }
}
