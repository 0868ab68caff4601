//! Records of clients as workers leave them: `corpus/records4.txt` has those of format 4, and so on. Each line is a
//! kind and the record's bytes. A change to their meaning gives the format another number.
//!
//! In format 4, each queue has a file of its own.

use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

use super::record::{
    Adapter, Answer, Backing, Channel, Client, Context, Cq, File, Partly, Qp, RegionRecord, Srq,
    SrqProgress,
};
use super::*;

fn file(format: u32) -> PathBuf {
    let name = format!("corpus/records{format}.txt");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Offset of a queue in its file in the records of [`all`].
const OFFSET: u32 = 15 << 12;

fn adapter() -> Adapter {
    Adapter {
        name: "c1".into(),
        frame: vec![1, 2, 3],
    }
}

fn context() -> Context {
    Context {
        owner: 1,
        socket: 2,
        memory: 3,
        doorbell_page: 4,
        doorbell_event: 5,
        events: 6,
        grants: Some(7),
        nonce_address: 8 << 32,
        nonce: 9 << 40,
        only: Some("c1".into()),
        encloses: true,
    }
}

fn answer() -> Answer {
    Answer {
        code: 1,
        number: 2,
        errno: -3,
        body: vec![4, 5],
        descriptors: vec![6, 7],
    }
}

fn channel() -> Channel {
    Channel {
        owner: 1,
        channel: 2,
        pipe: 3,
    }
}

fn place(backing: Backing) -> RegionRecord {
    RegionRecord {
        owner: 1,
        id: 2,
        backing: Some(backing),
        adoption: 3,
    }
}

fn places() -> [RegionRecord; 4] {
    let client = Client {
        address: 3 << 40,
        length: 4,
        is_filled_by_owner: true,
    };
    let file = File {
        descriptor: 5,
        offset: 6 << 12,
        length: 7 << 12,
        lead: 8,
        writable: true,
    };
    [
        Backing::Client(client),
        Backing::File(file),
        Backing::Data(9),
        Backing::Partly(Partly {
            client,
            file,
            start: 10 << 12,
        }),
    ]
    .map(place)
}

fn cq(offset: u32) -> Cq {
    Cq {
        engine: vec![1, 2],
        owner: 3,
        area: 4,
        entries: 5,
        channel: Some(6),
        cookie: 7 << 50,
        encloses: true,
        offset,
    }
}

fn srq(offset: u32) -> Srq {
    Srq {
        owner: 1,
        area: 2,
        slots: 3,
        max_sge: 4,
        cookie: 5 << 50,
        offset,
    }
}

fn srq_progress() -> SrqProgress {
    SrqProgress {
        released: 1,
        limit: 2,
        dead: true,
        engine: vec![3, 4],
    }
}

fn qp(offset: u32) -> Qp {
    Qp {
        engine: vec![1, 2],
        owner: 3,
        area: 4,
        capacity: vec![5, 6, 7, 8, 9],
        has_srq: true,
        cookie: 10 << 50,
        doorbell: 11,
        data: 12,
        data_key: 13,
        id: 14,
        offset,
    }
}

/// The records by their names in the file, with their bytes as of now.
fn all() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = vec![
        ("Adapter", adapter().encode_to_vec()),
        ("Context", context().encode_to_vec()),
        ("Answer", answer().encode_to_vec()),
        ("Channel", channel().encode_to_vec()),
        ("Cq", cq(OFFSET).encode_to_vec()),
        ("Srq", srq(OFFSET).encode_to_vec()),
        ("SrqProgress", srq_progress().encode_to_vec()),
        ("Qp", qp(OFFSET).encode_to_vec()),
    ];
    all.extend(places().map(|place| ("RegionRecord", place.encode_to_vec())));
    all
}

fn is<M: Message + Default + PartialEq + Debug>(bytes: &[u8], expected: &M) {
    assert_eq!(M::decode(bytes).as_ref(), Ok(expected));
}

#[test]
fn records_of_workers_that_are_out_there_mean_the_same() {
    load(4, 0);
    load(5, OFFSET);
}

fn load(format: u32, offset: u32) {
    let text = fs::read_to_string(file(format)).unwrap();
    let mut places = places().into_iter();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), all().len());
    for line in lines {
        let (kind, hex) = line.split_once(' ').unwrap();
        let digits = hex
            .as_bytes()
            .chunks(2)
            .map(|it| str::from_utf8(it).unwrap());
        let bytes: Vec<u8> = digits
            .map(|it| u8::from_str_radix(it, 16).unwrap())
            .collect();
        match kind {
            "Adapter" => is(&bytes, &adapter()),
            "Context" => is(&bytes, &context()),
            "Answer" => is(&bytes, &answer()),
            "Channel" => is(&bytes, &channel()),
            "Cq" => is(&bytes, &cq(offset)),
            "Srq" => is(&bytes, &srq(offset)),
            "SrqProgress" => is(&bytes, &srq_progress()),
            "Qp" => is(&bytes, &qp(offset)),
            "RegionRecord" => is(&bytes, &places.next().unwrap()),
            _ => panic!("{kind}"),
        }
    }
}

/// Records have the numbers of their kinds, too.
#[test]
fn kinds_keep_their_numbers() {
    let kinds = [
        Kind::Adapter,
        Kind::Context,
        Kind::Channel,
        Kind::Pd,
        Kind::Mr,
        Kind::Cq,
        Kind::Srq,
        Kind::Qp,
        Kind::QpProgress,
        Kind::CqProgress,
        Kind::SrqProgress,
        Kind::Receive,
        Kind::Answer,
        Kind::Intent,
    ];
    let numbers: Vec<u16> = kinds.iter().map(|kind| *kind as u16).collect();
    assert_eq!(numbers, (1..15).collect::<Vec<_>>());
}

#[test]
#[ignore = "writes a file, for whoever has raised the format"]
fn write_the_corpus() {
    let line = |(kind, bytes): &(&str, Vec<u8>)| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{kind} {hex}\n")
    };
    fs::write(file(5), all().iter().map(line).collect::<String>()).unwrap();
}
