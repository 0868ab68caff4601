//! An adapter moves to the other host while somebody is connected to it, as a machine does that is
//! saved here and restored there: its queue pair has the same number there and goes on where it was.
//!
//! The control API creates and removes adapters; a new one numbers its queue pairs anew. So the test
//! makes many queue pairs and as many lives of the adapter as it takes until a number comes again.

use super::{Medium, World};
use crate::client::{Client, LONG, Memory, Queues, Terms, send};
use vrdma_lab::namespace::enter;

/// Connections, of which one outlives the move.
const PAIRS: usize = 64;

/// Lives after which the numbers should have come again: each has them with a chance of a fifth.
const LIVES: usize = 400;

/// Messages of each connection before the move: single packets.
const MESSAGES: u32 = 3;

const BYTES: usize = 64;

/// The adapter and what is on it.
struct Life {
    client: Client,
    queues: Vec<Queues>,
}

impl Life {
    fn begin(world: &World, host: usize) -> Self {
        let daemon = &world.daemons[host];
        daemon.add_adapter("c1", "10.0.0.2");
        let client = Client::open_at(&daemon.process_socket(), 1);
        let queues = (0..PAIRS).map(|_| client.queues(16)).collect();
        Self { client, queues }
    }
}

/// A message in each direction.
fn talk(ends: [(&Client, &mut Queues); 2], byte: u8) {
    let [(a, ours), (b, theirs)] = ends;
    one_way((a, ours), (b, theirs), byte);
    one_way((b, theirs), (a, ours), byte ^ 0xff);
}

fn one_way(from: (&Client, &mut Queues), to: (&Client, &mut Queues), byte: u8) {
    let source = Memory::new(from.0, byte, BYTES);
    let target = Memory::new(to.0, 0, BYTES);
    to.0.post_recv(to.1, 1, target.buffer());
    from.0.post_send(from.1, send(2), source.buffer());
    assert_eq!((to.1.wait().status, from.1.wait().status), (0, 0));
    assert_eq!(target.first(), byte);
}

/// The adapter c1 begins on one host and goes on on the other. Host 0 has c0.
fn moves(from: usize, to: usize) {
    let world = World::new(Medium::Raw);
    let fixed = Client::open_at(&world.daemons[0].process_socket(), 0);
    world.daemons[1].remove_adapter("c1");
    let mut before = Life::begin(&world, from);
    let mut ours: Vec<_> = (0..PAIRS).map(|_| fixed.queues(16)).collect();
    for (mine, theirs) in ours.iter_mut().zip(&mut before.queues) {
        fixed.connect(mine, 1, theirs.reply.qp_num, LONG);
        before.client.connect(theirs, 0, mine.reply.qp_num, LONG);
        for message in 0..MESSAGES {
            talk(
                [(&fixed, mine), (&before.client, theirs)],
                message as u8 + 1,
            );
        }
    }
    let numbers: Vec<_> = before.queues.iter().map(|it| it.reply.qp_num).collect();
    let packets = world.daemons[0].roce().tx_frames;
    assert_eq!(packets > 0, from == 1);
    world.daemons[from].remove_adapter("c1");
    drop(before);

    let (mut after, again) = reborn(&world, to, &numbers);
    let (mine, theirs) = (&mut ours[again], &mut after.queues[again]);
    let terms = Terms {
        psns: (MESSAGES, MESSAGES),
        ..LONG
    };
    after.client.connect(theirs, 0, mine.reply.qp_num, terms);
    for message in 0..MESSAGES {
        talk(
            [(&fixed, mine), (&after.client, theirs)],
            message as u8 + 10,
        );
    }
    let more = world.daemons[0].roce().tx_frames - packets;
    assert_eq!(more > 0, to == 1, "{more} packets on the wire");
}

fn reborn(world: &World, host: usize, numbers: &[u32]) -> (Life, usize) {
    for _ in 0..LIVES {
        let life = Life::begin(world, host);
        let mut pairs = life.queues.iter().zip(numbers);
        if let Some(again) = pairs.position(|(queues, number)| queues.reply.qp_num == *number) {
            return (life, again);
        }
        world.daemons[host].remove_adapter("c1");
    }
    panic!("no number came again in {LIVES} lives");
}

#[test]
fn a_connection_goes_from_local_to_wire() {
    if enter("hosts::moves::a_connection_goes_from_local_to_wire") {
        moves(0, 1);
    }
}

#[test]
fn a_connection_goes_from_wire_to_local() {
    if enter("hosts::moves::a_connection_goes_from_wire_to_local") {
        moves(1, 0);
    }
}
