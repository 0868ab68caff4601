//! Saved state of an engine: bytes from a file, which may be of any origin.

use vrdma_verbs::{Hca, Pace, Time};

/// Finds a region by its name.
fn find(name: &[u8]) -> Option<usize> {
    (name.len() <= 8).then_some(name.len())
}

fn name(region: &usize) -> Vec<u8> {
    vec![0; *region]
}

/// A restored engine works, and is the same when it is saved again.
pub fn run(input: &[u8]) {
    let Ok(mut hca) = Hca::<usize>::restore(input, find) else {
        return;
    };
    let saved = hca
        .save(name)
        .expect("what was restored has nothing under way");
    let again = Hca::<usize>::restore(&saved, find).expect("what is saved can be restored");
    assert_eq!(again.save(name).as_ref(), Ok(&saved));
    for round in 1..8 {
        let now = hca.next_deadline().unwrap_or(Time(round << 30));
        hca.handle_timeout(now);
        while let Some(qp) = hca.next_ready() {
            while hca.poll_transmit(qp, now, 256, &mut Pace::Wire).is_some() {}
        }
        while hca.poll_reply(now, &mut Pace::Wire).is_some() {}
        while hca.poll_output().is_some() {}
    }
}
