//! Requests that are judged by what was posted before them.

use rustix::io::Errno;
use vrdma_provider::message::{QueryPort, ResizeCq};

use crate::client::{Memory, QKEY, errno};
use crate::rules::datagram;
use crate::two;

/// Requests that follow an answered one closely.
const ROUNDS: u32 = 300;

/// Datagrams that are posted between the two.
const SENDS: usize = 6;

/// The completions of datagrams that were posted are in their queue when a request to make it smaller is served, however
/// soon after an answer it comes: the queue cannot become smaller than they are.
#[test]
fn datagrams_posted_just_before_a_completion_queue_shrinks_count() {
    let (_host, a, _b) = two();
    let mut queues = a.datagram();
    let from = Memory::new(&a, 1, 64);
    let shrink = ResizeCq {
        cq: queues.cq_handle,
        entries: 1,
    };
    let header = datagram(1, QKEY);
    for round in 0..ROUNDS {
        a.call(&QueryPort {}).unwrap();
        for _ in 0..SENDS {
            a.post_send(&mut queues, header, from.buffer());
        }
        let refused = errno(a.call(&shrink));
        assert_eq!(refused, Errno::INVAL.raw_os_error(), "round {round}");
        for _ in 0..SENDS {
            assert_eq!(queues.wait().status, 0);
        }
    }
}
