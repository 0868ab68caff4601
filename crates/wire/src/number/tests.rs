use proptest::prelude::*;

use super::*;

#[test]
fn psn_order_is_circular() {
    let near_end = Psn::new(0xff_fffe);
    assert!(near_end.is_before(near_end.plus(4)));
    assert!(!near_end.plus(4).is_before(near_end));
    assert!(!near_end.is_before(near_end));
    assert_eq!(near_end.plus(4), Psn::new(2));
}

#[test]
fn mtu_codes_and_packet_counts() {
    assert_eq!(Mtu::from_code(3).map(Mtu::bytes), Some(1024));
    assert_eq!(Mtu::from_code(0), None);
    assert_eq!(Mtu::from_code(6), None);
    assert_eq!(Mtu::B1024.packets(0), 1);
    assert_eq!(Mtu::B1024.packets(1024), 1);
    assert_eq!(Mtu::B1024.packets(1025), 2);
    assert_eq!(Mtu::B4096.bytes(), 4096);
}

#[test]
fn keys_split_into_index_and_variant() {
    let key = Rkey::from_parts(0x1234, 0x56);
    assert_eq!(
        (key.0, key.index(), key.variant()),
        (0x12_3456, 0x1234, 0x56)
    );
}

#[test]
fn partitions_match_unless_both_are_limited() {
    let (full, limited) = (Pkey(0x8123), Pkey(0x0123));
    assert!(full.matches(full) && full.matches(limited) && limited.matches(full));
    assert!(!limited.matches(limited));
    assert!(!full.matches(Pkey::DEFAULT));
    assert!(!Pkey(0x8000).matches(Pkey(0x8000)));
}

proptest! {
    #[test]
    fn exactly_one_of_two_psns_is_before(a in 0u32..1 << 24, ahead in 1u32..0x80_0000) {
        let (a, b) = (Psn::new(a), Psn::new(a).plus(ahead));
        prop_assert_eq!(b.since(a), ahead);
        prop_assert!(a.is_before(b) && !b.is_before(a));
    }
}
