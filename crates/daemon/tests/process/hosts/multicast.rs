//! Datagrams to groups whose members are on both hosts.

use vrdma_provider::layout::{AddressVector, SendHeader};
use vrdma_provider::message::AttachMcast;

use super::{Medium, World};
use crate::client::{Client, Memory, QKEY, Queues, send};
use vrdma_lab::namespace::enter;

/// GIDs of groups, with IPv4 addresses in them.
const GROUP: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3];
const OTHER: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 4];

/// Bytes of a GRH and a payload.
const BYTES: usize = 40 + 64;

/// A queue pair in a group, with room for datagrams.
struct Member<'a> {
    client: &'a Client,
    queues: Queues,
    room: Memory,
}

impl<'a> Member<'a> {
    fn join(client: &'a Client, group: [u8; 16]) -> Self {
        let mut queues = client.datagram();
        let room = Memory::new(client, 0, BYTES);
        let attach = AttachMcast {
            qp: queues.reply.qp,
            gid: group,
            lid: 0,
        };
        client.call(&attach).unwrap();
        for number in 0..2 {
            client.post_recv(&mut queues, number, room.buffer());
        }
        Self {
            client,
            queues,
            room,
        }
    }

    /// Waits for the next datagram, and returns its byte.
    fn hears(&mut self) -> u8 {
        let entry = self.queues.wait();
        assert_eq!((entry.status, entry.byte_len), (0, BYTES as u32));
        self.client
            .post_recv(&mut self.queues, 9, self.room.buffer());
        self.room.bytes[BYTES - 1]
    }

    fn heard_nothing_more(&mut self) -> bool {
        self.queues.poll().is_none()
    }

    fn says(&mut self, group: [u8; 16], byte: u8) {
        let payload = Memory::new(self.client, byte, 64);
        let header = SendHeader {
            target: 0xff_ffff,
            qkey: QKEY,
            address: AddressVector {
                dgid: group,
                sgid_index: 1,
                port: 1,
                hop_limit: 1,
                ..AddressVector::default()
            },
            ..send(1)
        };
        self.client
            .post_send(&mut self.queues, header, payload.buffer());
        assert_eq!(self.queues.wait().status, 0);
    }
}

/// Datagrams reach the members of their group on both hosts, and nobody else. Datagrams of one sender keep their order
/// here, so the next one that arrives shows that earlier ones did not.
fn groups_reach_the_other_host(medium: Medium) {
    let world = World::new(medium);
    let [a, b] = world.clients();
    world.daemons[1].add_strange_adapter("c2", "10.0.0.3");
    let stranger = Client::open_at(&world.daemons[1].process_socket(), 2);
    let mut speaker = Member::join(&a, OTHER);
    let mut neighbour = Member::join(&a, GROUP);
    let (mut far, mut outsider) = (Member::join(&b, GROUP), Member::join(&b, OTHER));
    let mut strange = Member::join(&stranger, GROUP);
    for byte in 1..=3 {
        speaker.says(GROUP, byte);
        assert_eq!([neighbour.hears(), far.hears()], [byte, byte]);
    }
    far.says(OTHER, 77);
    assert_eq!([outsider.hears(), speaker.hears()], [77, 77]);
    let members = [
        &mut speaker,
        &mut neighbour,
        &mut far,
        &mut outsider,
        &mut strange,
    ];
    assert!(members.into_iter().all(Member::heard_nothing_more));
    let [ours, theirs] = [0, 1].map(|host| world.daemons[host].roce());
    // A raw uplink also tells switches which groups have members.
    assert!(ours.tx_frames >= 3 && theirs.tx_frames >= 1);
    assert_eq!((ours.rx_frames, theirs.rx_frames), (1, 3));
}

#[test]
fn groups_reach_the_other_host_over_a_cable() {
    if enter("hosts::multicast::groups_reach_the_other_host_over_a_cable") {
        groups_reach_the_other_host(Medium::Raw);
    }
}

#[test]
fn groups_reach_the_other_host_through_a_tunnel() {
    if enter("hosts::multicast::groups_reach_the_other_host_through_a_tunnel") {
        groups_reach_the_other_host(Medium::Tunnel);
    }
}
