//! Raw uplinks over veth pairs in namespaces of their own.

use std::time::{Duration, Instant};

use crate::namespace::veth;
use crate::world::{PATIENCE, drain, is_ready, overrun, plain, receive, roce};
use vrdma_lab::namespace::{enter, enter_without_network, shell, wait_for_carrier};
use vrdma_uplink::{Hop, Loss, OpenError, Ports, Segment};
use vrdma_wire::internet_checksum;

#[test]
fn frames_are_sorted_and_tags_are_segments() {
    if !enter("raw::frames_are_sorted_and_tags_are_segments") {
        return;
    }
    veth("up0", "up1");
    let (mut a, mut b) = (Ports::raw("up0").unwrap(), Ports::raw("up1").unwrap());
    let segments = [Segment::Untagged, Segment::Vlan(10), Segment::Vlan(4094)];
    for segment in segments {
        a.roce.send(Hop::to(segment), &roce(1, 2, 7, 300));
        a.rest.send(Hop::to(segment), &plain(1, 2, 7));
    }
    assert!(a.roce.flush() && a.rest.flush());
    assert_eq!(
        receive(&mut b.roce, 3),
        segments.map(|segment| (segment, roce(1, 2, 7, 300)))
    );
    assert_eq!(
        receive(&mut b.rest, 3),
        segments.map(|segment| (segment, plain(1, 2, 7)))
    );
    // Neither of the sender's ports receives the frames that it sent.
    let mut own = Vec::new();
    drain(&mut a.roce, &mut own);
    drain(&mut a.rest, &mut own);
    assert_eq!(own, []);
}

/// Shards that only send watch such a port: incoming frames are not their business.
#[test]
fn what_comes_wakes_the_port_that_reads_and_no_sender() {
    if !enter("raw::what_comes_wakes_the_port_that_reads_and_no_sender") {
        return;
    }
    veth("up0", "up1");
    let (mut a, mut b) = (Ports::raw("up0").unwrap(), Ports::raw("up1").unwrap());
    let mut sender = b.roce.sender().unwrap();
    a.roce.send(Hop::to(Segment::Untagged), &roce(1, 2, 7, 300));
    assert!(a.roce.flush());
    assert!(is_ready(&b.roce, PATIENCE), "it came");
    assert!(!is_ready(&sender, Duration::ZERO));
    assert_eq!(receive(&mut b.roce, 1).len(), 1);
    sender.send(Hop::to(Segment::Untagged), &roce(2, 1, 8, 300));
    assert!(sender.flush());
    assert_eq!(
        receive(&mut a.roce, 1),
        [(Segment::Untagged, roce(2, 1, 8, 300))]
    );
    assert!(!is_ready(&sender, Duration::ZERO), "nothing waits for room");
}

/// Makes a packet of a flow whose identifications count up.
fn numbered(number: u16, len: usize) -> Vec<u8> {
    let mut frame = roce(1, 2, u32::from(number), len);
    frame[18..20].copy_from_slice(&number.to_be_bytes());
    let sum = internet_checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn packets_of_a_flow_travel_together() {
    if !enter("raw::packets_of_a_flow_travel_together") {
        return;
    }
    veth("up0", "up1");
    let (mut a, mut b) = (Ports::raw("up0").unwrap(), Ports::raw("up1").unwrap());
    let mut sent: Vec<_> = (0xfff8..=0xffff)
        .map(|number| numbered(number, 1098))
        .collect();
    sent.extend((0..40).map(|number| numbered(number, 1098)));
    sent.extend([numbered(40, 300), numbered(41, 1098), numbered(7, 1098)]);
    for frame in &sent {
        a.roce.send(Hop::to(Segment::Untagged), frame);
    }
    assert!(a.roce.flush());
    let (mut came, mut arrivals, begun) = (Vec::new(), 0, Instant::now());
    while came.len() < sent.len() {
        assert!(begun.elapsed() < PATIENCE, "{} came", came.len());
        arrivals += drain(&mut b.roce, &mut came);
    }
    let came: Vec<_> = came.into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(came, sent);
    assert_eq!(arrivals, 3);
    assert_eq!(a.roce.counters().sent_frames, sent.len() as u64);
}

/// The kernel only checks the length of single packets.
#[test]
fn packets_that_are_too_long_do_not_travel_together() {
    if !enter("raw::packets_that_are_too_long_do_not_travel_together") {
        return;
    }
    veth("up0", "up1");
    let mut a = Ports::raw("up0").unwrap();
    for number in 0..4 {
        a.roce
            .send(Hop::to(Segment::Untagged), &numbered(number, 1600));
    }
    assert!(a.roce.flush());
    assert_eq!(a.roce.counters().lost(Loss::TooBig), 4);
}

#[test]
fn a_tag_inside_of_no_segment_is_refused() {
    if !enter("raw::a_tag_inside_of_no_segment_is_refused") {
        return;
    }
    veth("up0", "up1");
    let mut a = Ports::raw("up0").unwrap();
    let mut tagged = plain(1, 2, 0);
    tagged[12..14].copy_from_slice(&[0x81, 0]);
    a.rest.send(Hop::to(Segment::Untagged), &tagged);
    a.rest.send(Hop::to(Segment::Vlan(0)), &plain(1, 2, 0));
    a.rest.send(Hop::to(Segment::Vni(1)), &plain(1, 2, 0));
    assert_eq!(a.rest.counters().lost(Loss::Segment), 3);
    assert!(!a.rest.is_waiting());
}

#[test]
fn an_interface_goes_down_and_comes_back() {
    if !enter("raw::an_interface_goes_down_and_comes_back") {
        return;
    }
    veth("up0", "up1");
    let (mut a, mut b) = (Ports::raw("up0").unwrap(), Ports::raw("up1").unwrap());
    shell("ip link set up0 mtu 9000; ip link set up0 down");
    a.rest.send(Hop::to(Segment::Untagged), &plain(1, 2, 0));
    a.rest.flush();
    assert_eq!(a.rest.counters().lost(Loss::Down), 1);
    assert!(!a.rest.is_up());
    assert_eq!(a.rest.receive(&mut |_| true).unwrap(), 0);
    shell("ip link set up0 up");
    wait_for_carrier("up0");
    a.rest.refresh();
    assert!(a.rest.is_up());
    assert_eq!(a.rest.mtu(), 9000);
    a.rest.send(Hop::to(Segment::Untagged), &plain(1, 2, 1));
    a.rest.flush();
    assert_eq!(
        receive(&mut b.rest, 1),
        [(Segment::Untagged, plain(1, 2, 1))]
    );

    shell("ip link del up0");
    a.rest.refresh();
    assert!(!a.rest.is_up());
    a.rest.send(Hop::to(Segment::Untagged), &plain(1, 2, 2));
    a.rest.flush();
    veth("up0", "up1");
    for ports in [&mut a, &mut b] {
        ports.rest.refresh();
        assert!(ports.rest.is_up());
        let mut old = Vec::new();
        drain(&mut ports.rest, &mut old);
        assert_eq!(old, []);
    }
    a.rest.send(Hop::to(Segment::Untagged), &plain(1, 2, 3));
    a.rest.flush();
    assert_eq!(
        receive(&mut b.rest, 1),
        [(Segment::Untagged, plain(1, 2, 3))]
    );
}

#[test]
fn frames_past_the_mtu_are_counted() {
    if !enter("raw::frames_past_the_mtu_are_counted") {
        return;
    }
    veth("up0", "up1");
    let (mut a, mut b) = (Ports::raw("up0").unwrap(), Ports::raw("up1").unwrap());
    let most = 14 + a.roce.mtu() as usize;
    for segment in [Segment::Untagged, Segment::Vlan(5)] {
        a.roce.send(Hop::to(segment), &roce(1, 2, 0, most));
        a.roce.send(Hop::to(segment), &roce(1, 2, 1, most + 5));
    }
    a.roce.flush();
    assert_eq!(receive(&mut b.roce, 2).len(), 2);
    assert_eq!(a.roce.counters().lost(Loss::TooBig), 2);
}

#[test]
fn bad_interfaces_are_explained() {
    if !enter("raw::bad_interfaces_are_explained") {
        return;
    }
    let error = |name: &str| Ports::raw(name).unwrap_err();
    assert!(matches!(error("eth99"), OpenError::NoInterface(_)));
    assert!(matches!(error("a name"), OpenError::InterfaceName(_)));
    assert!(matches!(error("lo"), OpenError::NotEthernet(_)));
}

#[test]
fn what_the_kernel_drops_is_counted() {
    if !enter("raw::what_the_kernel_drops_is_counted") {
        return;
    }
    veth("up0", "up1");
    let (mut a, mut b) = (Ports::raw("up0").unwrap(), Ports::raw("up1").unwrap());
    overrun(&mut a.roce, &mut b.roce, Segment::Untagged);
}

/// Without a network namespace of its own a process in a user namespace has no rights on the network.
#[test]
fn a_missing_right_is_named() {
    if !enter_without_network("raw::a_missing_right_is_named") {
        return;
    }
    let name = crate::namespace::some_interface();
    let error = Ports::raw(&name).unwrap_err();
    assert!(matches!(error, OpenError::NotPermitted(_)), "{error}");
    assert!(error.to_string().contains("CAP_NET_RAW"));
}
