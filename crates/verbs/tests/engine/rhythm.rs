//! Acknowledgements that go with a queue pair's answers, when it answers each message.

use std::time::Duration;

use vrdma_verbs::object::QpType;
use vrdma_verbs::work::{SendOp, Status};

use crate::pair::node::{ALL, Mr};
use crate::pair::{Pair, Setup};

/// Longest wait of an acknowledgement.
const HOLD: Duration = Duration::from_micros(50);

/// Rounds after which answers are expected, with a margin.
const ROUNDS: u64 = 6;

struct Game {
    pair: Pair,
    /// Memory of each node.
    targets: [Mr; 2],
    /// Number of writes of each node so far.
    sent: [u64; 2],
}

impl Game {
    /// Makes two nodes that have exchanged writes for a while: each write of A was followed at once by one of B.
    fn begun() -> Self {
        let mut pair = Pair::wired(QpType::Rc, Setup::default());
        let targets = [pair.a().register(64, ALL), pair.b().register(64, ALL)];
        let mut game = Self {
            pair,
            targets,
            sent: [0; 2],
        };
        for _ in 0..ROUNDS {
            game.write(0);
            game.write(1);
        }
        game
    }

    /// Writes from one node to the other, and moves everything that moves without the clock.
    fn write(&mut self, from: usize) {
        let target = self.targets[1 - from].remote(0);
        let id = self.sent[from];
        self.sent[from] += 1;
        let node = if from == 0 {
            self.pair.a()
        } else {
            self.pair.b()
        };
        node.send(id, SendOp::Write(target), &[]);
        self.pair.run();
    }

    /// Returns how many writes of A are acknowledged.
    fn done(&mut self) -> u64 {
        let done = self.pair.a().sends();
        assert!(done.iter().all(|(_, status)| *status == Status::Success));
        done.len() as u64
    }
}

#[test]
fn who_answers_each_message_acknowledges_with_the_answer() {
    let mut game = Game::begun();
    game.write(0);
    assert_eq!(game.done(), ROUNDS, "the last one waits for the answer");
    game.write(1);
    assert_eq!(game.done(), ROUNDS + 1);
}

#[test]
fn an_answer_that_does_not_come_is_not_waited_for_long() {
    let mut game = Game::begun();
    game.write(0);
    game.pair.advance(HOLD - Duration::from_nanos(1));
    assert_eq!(game.done(), ROUNDS);
    game.pair.advance(Duration::from_nanos(1));
    assert_eq!(game.done(), ROUNDS + 1);
    game.write(0);
    assert_eq!(game.done(), ROUNDS + 2, "and not expected any more");
}

#[test]
fn a_second_message_is_acknowledged_at_once() {
    let mut game = Game::begun();
    game.write(0);
    game.write(0);
    assert_eq!(game.done(), ROUNDS + 2);
}

#[test]
fn a_refusal_does_not_wait() {
    let mut game = Game::begun();
    let mut wrong = game.targets[1].remote(0);
    wrong.addr += 1 << 20;
    let data = game.pair.a().holding(&[1; 8]);
    game.pair.a().send(99, SendOp::Write(wrong), &[data.sge()]);
    game.pair.run();
    let last = game.pair.a().sends().pop();
    assert_eq!(last, Some((99, Status::RemAccess)));
}
