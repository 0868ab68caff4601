use proptest::prelude::*;

use super::*;

fn emitted(value: Ipv4) -> [u8; 24] {
    let mut packet = [0; 24];
    value.emit(&mut packet);
    packet
}

const VALUE: Ipv4 = Ipv4 {
    source: Ipv4Addr::new(10, 10, 0, 1),
    destination: Ipv4Addr::new(10, 10, 0, 2),
    traffic_class: TrafficClass(0x42),
    identification: 0x1234,
    dont_fragment: true,
    ttl: 64,
    protocol: 17,
    payload_len: 4,
};

/// Corrects the checksum of a header that a test has changed.
fn mend(packet: &mut [u8]) {
    let len = usize::from(packet[0] & 15) * 4;
    put(packet, 10, [0, 0]);
    let checksum = internet_checksum(&packet[..len]);
    put(packet, 10, checksum.to_be_bytes());
}

#[test]
fn lengths_must_agree() {
    let good = emitted(VALUE);
    assert_eq!(Ipv4View::new(&good[..23]), Err(Malformed::Short));
    assert_eq!(Ipv4View::new(&[]), Err(Malformed::Short));
    for (at, byte, error) in [
        (0, 0x65, Malformed::Version),
        (0, 0x44, Malformed::Length),
        (3, 19, Malformed::Length),
        (2, 1, Malformed::Short),
    ] {
        let mut bad = good;
        bad[at] = byte;
        assert_eq!(Ipv4View::new(&bad), Err(error), "byte {at}");
    }
}

#[test]
fn a_changed_bit_is_a_wrong_checksum() {
    let mut packet = emitted(VALUE);
    packet[8] -= 1;
    assert_eq!(Ipv4::parse(&packet), Err(Malformed::Checksum));
}

/// RoCEv2 packets are whole and without options (annex A17.3.1).
#[test]
fn options_and_fragments_are_not_values() {
    for (at, byte) in [(0, 0x46), (6, 0x20), (7, 1)] {
        let mut packet = emitted(VALUE);
        packet[at] = byte;
        mend(&mut packet);
        assert!(Ipv4View::new(&packet).is_ok());
        assert_eq!(
            Ipv4::parse(&packet),
            Err(Malformed::Unsupported),
            "byte {at}"
        );
    }
}

proptest! {
    #[test]
    fn values_survive_the_wire(
        (source, destination, class, id) in any::<(u32, u32, u8, u16)>(),
        (dont_fragment, ttl, protocol) in any::<(bool, u8, u8)>(),
        payload_len in 0u16..5,
    ) {
        let value = Ipv4 {
            source: source.into(),
            destination: destination.into(),
            traffic_class: TrafficClass(class),
            identification: id,
            dont_fragment,
            ttl,
            protocol,
            payload_len,
        };
        prop_assert_eq!(Ipv4::parse(&emitted(value)), Ok(value));
    }
}
