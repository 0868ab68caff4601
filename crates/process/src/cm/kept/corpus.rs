//! Records of rdma_cm as workers leave them: `corpus/cm5.txt` has those of formats 4 and 5. Each line is a kind and the
//! record's bytes. A change to their meaning gives the format another number.

use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

use prost::Message;

use super::record::*;
use super::recorder::Kind;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/cm5.txt")
}

fn client() -> Client {
    Client {
        client: 1,
        socket: 2,
        only: Some("c1".into()),
        wants: "c2".into(),
        last: 3 << 40,
    }
}

fn answer() -> Answer {
    Answer {
        client: 1,
        code: 2,
        number: 3,
        errno: -4,
        body: vec![5, 6],
        descriptors: vec![7, 8],
    }
}

fn channel() -> Channel {
    Channel {
        client: 1,
        channel: 2 << 40,
        pipe: 3,
    }
}

fn event() -> Event {
    Event {
        client: 1,
        channel: 2 << 40,
        number: 3 << 40,
        event: vec![4, 5],
    }
}

fn group() -> Group {
    Group {
        client: 1,
        group: 2 << 40,
        id: 3 << 40,
    }
}

fn identifier() -> Identifier {
    Identifier {
        client: 1,
        id: 2 << 40,
        channel: 3 << 40,
        space: 4,
        qp_type: 5,
        stage: 6,
        options: Options {
            traffic_class: 7,
            reuse_address: true,
            family_only: true,
            ack_timeout: 8,
        },
        route: vec![9, 10],
        adapter: Some("c1".into()),
        claim: Some(Claim {
            address: Some(vec![11, 12]),
            family: 13,
            family_only: true,
            shared: true,
        }),
        backlog: Some(14),
        connection: Some(15),
        link: vec![16],
        local: vec![17],
        remote: Some(vec![18]),
        search: Some(Search {
            adapter: "c2".into(),
            sgid: vec![19],
            dgid: vec![20],
            remote: vec![21],
            patience_ms: 22,
        }),
    }
}

fn offer() -> Offer {
    Offer {
        client: 1,
        id: 2 << 40,
        adapter: "c1".into(),
        qpn: 3,
        qkey: 4,
    }
}

fn connection() -> Connection {
    Connection {
        adapter: "c1".into(),
        saved: vec![1, 2],
    }
}

fn datagram() -> Datagram {
    Datagram {
        adapter: "c1".into(),
        number: 1 << 40,
        local: vec![2],
        remote: vec![3],
        bytes: vec![4],
    }
}

/// All records, in the order of their kinds.
fn all() -> [Vec<u8>; 9] {
    [
        client().encode_to_vec(),
        answer().encode_to_vec(),
        channel().encode_to_vec(),
        event().encode_to_vec(),
        group().encode_to_vec(),
        identifier().encode_to_vec(),
        offer().encode_to_vec(),
        connection().encode_to_vec(),
        datagram().encode_to_vec(),
    ]
}

fn is<M: Message + Default + PartialEq + Debug>(bytes: &[u8], expected: &M) {
    assert_eq!(M::decode(bytes).as_ref(), Ok(expected));
}

#[test]
fn records_of_workers_that_are_out_there_mean_the_same() {
    let text = fs::read_to_string(file()).unwrap();
    assert_eq!(text.lines().count(), all().len());
    for line in text.lines() {
        let (kind, hex) = line.split_once(' ').unwrap();
        let digits = hex.as_bytes().chunks(2);
        let digits = digits.map(|it| str::from_utf8(it).unwrap());
        let bytes: Vec<u8> = digits
            .map(|it| u8::from_str_radix(it, 16).unwrap())
            .collect();
        match Kind::from_number(kind.parse().unwrap()).unwrap() {
            Kind::Client => is(&bytes, &client()),
            Kind::Answer => is(&bytes, &answer()),
            Kind::Channel => is(&bytes, &channel()),
            Kind::Event => is(&bytes, &event()),
            Kind::Group => is(&bytes, &group()),
            Kind::Identifier => is(&bytes, &identifier()),
            Kind::Offer => is(&bytes, &offer()),
            Kind::Connection => is(&bytes, &connection()),
            Kind::Datagram => is(&bytes, &datagram()),
        }
    }
}

#[test]
#[ignore = "writes a file, for whoever has raised the format"]
fn write_the_corpus() {
    let line = |(kind, bytes): (usize, Vec<u8>)| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{kind} {hex}\n")
    };
    let lines = (1..).zip(all()).map(line);
    fs::write(file(), lines.collect::<String>()).unwrap();
}
