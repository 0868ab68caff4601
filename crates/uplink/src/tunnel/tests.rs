use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use crate::{Hop, Loss, Segment};

fn frame(roce: bool, number: u8) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([
        8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame.extend([
        0xc0,
        0,
        0x12,
        if roce { 0xb7 } else { 0 },
        0,
        26,
        0,
        0,
        number,
    ]);
    frame.resize(60, 0);
    frame
}

/// Returns the numbers of the frames that came, at least `wanted` of them.
fn numbers(port: &mut Tunnel, other: &mut Tunnel, wanted: usize) -> Vec<u8> {
    let mut numbers = Vec::new();
    while numbers.len() < wanted {
        let ready = [&*port, &*other].map(|tunnel| PollFd::new(tunnel, PollFlags::IN));
        let patience = Timespec::try_from(Duration::from_secs(10)).unwrap();
        assert!(
            poll(&mut { ready }, Some(&patience)).unwrap() > 0,
            "{numbers:?}"
        );
        port.receive(&mut |received| {
            numbers.push(received.frame[42]);
            true
        })
        .unwrap();
        other
            .receive(&mut |received| {
                !is_for_adapters(received.frame) || panic!("it is the other port's")
            })
            .unwrap();
    }
    numbers
}

/// The selector sends everything to the socket for the rest, which is the worst result of a refused selector.
#[test]
fn each_port_gets_its_own_without_a_selector() {
    let config = TunnelConfig {
        local: "127.0.0.1:0".parse().unwrap(),
    };
    let all_to_rest = [Instruction {
        code: 6,
        jump_true: 0,
        jump_false: 0,
        operand: 0,
    }];
    let (mut roce, mut rest) = Tunnel::open_sorted(&config, &all_to_rest).unwrap();
    let (mut sender, _other) = Tunnel::open_both(&config).unwrap();
    sender.add_peer(roce.local()).unwrap();
    for port in [&mut roce, &mut rest] {
        port.add_peer(sender.local()).unwrap();
    }
    for number in 0..20 {
        sender.send(Hop::to(Segment::Vni(1)), &frame(number % 2 == 0, number));
    }
    sender.flush();
    assert_eq!(
        numbers(&mut roce, &mut rest, 10),
        (0..20).step_by(2).collect::<Vec<_>>()
    );
    let counted = [&roce, &rest].map(|port| port.counters().received_frames);
    assert_eq!((counted, rest.counters().lost(Loss::Stray)), ([10, 10], 0));
}

#[test]
fn a_sender_uses_the_socket_and_the_peers_of_its_port() {
    let config = TunnelConfig {
        local: "127.0.0.1:0".parse().unwrap(),
    };
    let (mut near, _near_rest) = Tunnel::open_both(&config).unwrap();
    let (mut far, mut far_rest) = Tunnel::open_both(&config).unwrap();
    let mut sender = near.sender().unwrap();
    near.add_peer(far.local()).unwrap();
    far.add_peer(near.local()).unwrap();
    for number in 0..4 {
        sender.send(Hop::to(Segment::Vni(1)), &frame(true, number));
    }
    assert!(sender.flush());
    assert_eq!(numbers(&mut far, &mut far_rest, 4), [0, 1, 2, 3]);
    assert_eq!(sender.counters().sent_frames, 4);
    far.send(Hop::to(Segment::Vni(1)), &frame(true, 9));
    far.flush();
    let received = sender.receive(&mut |_| panic!("it receives nothing"));
    assert_eq!(received.unwrap(), 0);
}

/// A batch that took all waiting frames needs no second look.
#[test]
fn a_full_batch_says_that_more_may_wait() {
    let config = TunnelConfig {
        local: "127.0.0.1:0".parse().unwrap(),
    };
    let (mut near, _near_rest) = Tunnel::open_both(&config).unwrap();
    let (mut far, _far_rest) = Tunnel::open_both(&config).unwrap();
    near.add_peer(far.local()).unwrap();
    far.add_peer(near.local()).unwrap();
    // One system call for each: the kernel joins what comes in one.
    for number in 0..40 {
        near.send(Hop::to(Segment::Vni(1)), &frame(true, number));
        assert!(near.flush());
    }
    let mut batches = Vec::new();
    while batches.iter().sum::<usize>() < 40 {
        let came = far.receive(&mut |_| true).unwrap();
        batches.push(came);
        assert_eq!(far.has_more(), came == 32, "{batches:?}");
    }
    assert_eq!(batches, [32, 8]);
    assert_eq!(far.receive(&mut |_| true).unwrap(), 0);
    assert!(!far.has_more());
}
