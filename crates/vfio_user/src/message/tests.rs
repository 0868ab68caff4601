use super::*;
use crate::message::layout;
use crate::script::QEMU_VERSION;

#[test]
fn structures_have_the_sizes_of_the_specification() {
    assert_eq!(size_of::<RawHeader>(), HEADER_SIZE);
    assert_eq!(size_of::<layout::DmaMap>(), 32);
    assert_eq!(size_of::<layout::DmaUnmap>(), 24);
    assert_eq!(size_of::<layout::DeviceInfo>(), 16);
    assert_eq!(size_of::<layout::RegionInfo>(), 32);
    assert_eq!(size_of::<layout::SparseMmap>(), 16);
    assert_eq!(size_of::<layout::SparseArea>(), 16);
    assert_eq!(size_of::<layout::IrqInfo>(), 16);
    assert_eq!(size_of::<layout::SetIrqs>(), 20);
    assert_eq!(size_of::<layout::RegionAccess>(), 16);
    assert_eq!(size_of::<layout::WriteOne>(), 24);
    assert_eq!(size_of::<layout::DmaAccess>(), 16);
}

#[test]
fn commands_are_found_by_their_number() {
    for command in Command::ALL {
        assert_eq!(Command::from_code(command as u16), Some(command));
    }
    for unknown in [0, 19, u16::MAX] {
        assert_eq!(Command::from_code(unknown), None);
    }
}

#[test]
fn headers_lie_as_specified() {
    let kind = Kind::Reply { error: Some(22) };
    let header = Header {
        id: 0x0102,
        command: 9,
        payload: 4,
        kind,
    };
    let bytes = [2, 1, 9, 0, 20, 0, 0, 0, 0x21, 0, 0, 0, 22, 0, 0, 0];
    assert_eq!(header.emit(), bytes);
    assert_eq!(Header::parse(&bytes), Ok(header));
}

#[test]
fn headers_survive_the_way_there_and_back() {
    let kinds = [
        Kind::Command { no_reply: false },
        Kind::Command { no_reply: true },
        Kind::Reply { error: None },
        Kind::Reply { error: Some(0) },
    ];
    for kind in kinds {
        let header = Header {
            id: 7,
            command: 99,
            payload: 123,
            kind,
        };
        assert_eq!(Header::parse(&header.emit()), Ok(header));
    }
}

#[test]
fn headers_that_lose_the_stream_are_errors() {
    let mut bytes = [0; HEADER_SIZE];
    assert_eq!(Header::parse(&bytes), Err(BadHeader::Size(0)));
    bytes[4] = 15;
    assert_eq!(Header::parse(&bytes), Err(BadHeader::Size(15)));
    bytes[4] = 16;
    bytes[8] = 2;
    assert_eq!(Header::parse(&bytes), Err(BadHeader::Type(2)));
    let sentence = BadHeader::Type(2).to_string();
    assert_eq!(
        sentence,
        "a message has type 2, which is neither a command nor a reply"
    );
}

fn version_reply(payload: &[u8]) -> Result<String, Refusal> {
    let reply = VersionRequest::parse(payload)?.reply();
    assert_eq!(reply[..4], [0, 0, 0, 0]);
    Ok(String::from_utf8(reply[4..].to_vec()).expect("JSON text is UTF-8"))
}

#[test]
fn the_version_reply_fits_the_buffer_that_qemu_reads_it_into() {
    let reply = version_reply(QEMU_VERSION).unwrap();
    assert_eq!(
        reply,
        "{\"capabilities\":{\"max_msg_fds\":16,\"max_data_xfer_size\":65536,\
         \"max_dma_maps\":512,\"pgsizes\":4096,\"write_multiple\":true}}\0"
    );
    assert!(reply.len() + 4 <= QEMU_VERSION.len());
}

#[test]
fn the_version_reply_names_only_what_was_proposed() {
    assert_eq!(version_reply(b"\0\0\0\0").unwrap(), "");
    assert_eq!(
        version_reply(b"\0\0\x09\0{}\0").unwrap(),
        "{\"capabilities\":{}}\0"
    );
    let one = version_reply(b"\0\0\0\0{\"capabilities\":{\"pgsizes\":8192,\"other\":[1]}}\0");
    assert_eq!(one.unwrap(), "{\"capabilities\":{\"pgsizes\":4096}}\0");
}

#[test]
fn bad_versions_are_refused() {
    use rustix::io::Errno;
    let cases: [(&[u8], Errno); 7] = [
        (b"", Errno::INVAL),
        (b"\0\0\0", Errno::INVAL),
        (b"\x01\0\0\0", Errno::PROTONOSUPPORT),
        (b"\0\0\0\0{}", Errno::INVAL),
        (b"\0\0\0\0{\0", Errno::INVAL),
        (b"\0\0\0\0\"text\"\0", Errno::INVAL),
        (
            b"\0\0\0\0{\"capabilities\":{\"pgsizes\":-1}}\0",
            Errno::INVAL,
        ),
    ];
    for (payload, errno) in cases {
        assert_eq!(
            version_reply(payload).unwrap_err().errno,
            errno,
            "{payload:?}"
        );
    }
}

#[test]
fn transfers_are_bounded_by_both_sides() {
    let limit = |theirs| {
        Capabilities {
            max_data_xfer_size: theirs,
            ..Default::default()
        }
        .max_transfer()
    };
    assert_eq!(limit(None), MAX_DATA);
    assert_eq!(limit(Some(4096)), 4096);
    assert_eq!(limit(Some(0)), 0);
    assert_eq!(limit(Some(u64::MAX)), MAX_DATA);
}
