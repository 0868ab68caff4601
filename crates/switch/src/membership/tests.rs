use super::*;

const BLUE: GroupId = GroupId(1);
const GREEN: GroupId = GroupId(2);

fn mac(number: u32) -> Mac {
    let [a, b, c, d] = number.to_be_bytes();
    Mac([0x52, 0x54, a, b, c, d])
}

#[test]
fn a_port_and_a_mac_are_taken_once() {
    let mut members = Membership::default();
    members.attach(PortId(1), BLUE, mac(1)).unwrap();
    let taken = members.attach(PortId(1), GREEN, mac(2));
    assert_eq!(taken, Err(AttachError::PortTaken));
    let taken = members.attach(PortId(2), BLUE, mac(1));
    assert_eq!(taken, Err(AttachError::MacTaken { by: PortId(1) }));
    members.attach(PortId(2), GREEN, mac(1)).unwrap();

    members.detach(PortId(1)).unwrap();
    assert!(members.detach(PortId(1)).is_none());
    members.attach(PortId(3), BLUE, mac(1)).unwrap();
    assert_eq!(members.configured(BLUE, mac(1)), Some(PortId(3)));
    assert_eq!(members.configured(GREEN, mac(1)), Some(PortId(2)));
}

#[test]
fn a_mac_must_be_one_stations() {
    for bad in [Mac::BROADCAST, Mac([0; 6]), Mac([1, 0, 0x5e, 0, 0, 1])] {
        let refused = Membership::default().attach(PortId(1), BLUE, bad);
        assert_eq!(refused, Err(AttachError::NotAStation));
    }
}

#[test]
fn ports_are_bounded() {
    let mut members = Membership::default();
    for number in 0..MAX_PORTS as u32 {
        members.attach(PortId(number), BLUE, mac(number)).unwrap();
    }
    let refused = members.attach(PortId(50000), GREEN, mac(50000));
    assert_eq!(refused, Err(AttachError::TooMany));
    members.detach(PortId(7)).unwrap();
    members.attach(PortId(50000), GREEN, mac(50000)).unwrap();
}

#[test]
fn groups_list_their_ports_in_order() {
    let mut members = Membership::default();
    for number in [5, 1, 3] {
        members.attach(PortId(number), BLUE, mac(number)).unwrap();
    }
    assert_eq!(members.of_group(BLUE), [PortId(1), PortId(3), PortId(5)]);
    assert_eq!(members.alone(BLUE, PortId(3)), [PortId(3)]);
    assert_eq!(members.alone(BLUE, PortId(2)), []);
    assert_eq!(members.of_group(GREEN), []);
}
