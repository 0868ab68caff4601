//! Requests whose result depends on what was posted before them.

use rustix::io::Errno;
use vrdma_provider::message::{QueryPort, ResizeCq};

use crate::client::{Memory, QKEY, errno};
use crate::rules::datagram;
use crate::two;

/// Requests that closely follow an answered one.
const ROUNDS: u32 = 300;

/// Datagrams that are posted between the two.
const SENDS: usize = 6;

/// When a request to shrink a completion queue is served, completions of datagrams posted before are in the queue
/// already, however soon the request follows an answer: the queue cannot become smaller than their number.
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
