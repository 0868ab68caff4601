//! The last messages of a ping-pong over a wire that loses frames.
//!
//! ```text
//! client                    server
//!   | last message   ------>  |
//!   |    x------ acknowledge  |
//!   |  <------   last answer  |
//!   | acknowledge   ------->  has everything and goes, with its queue pair
//!   | asks again ...          nobody is there: retries run out
//! ```
//!
//! rdma-core's ping-pongs end without a closing handshake, unlike perftest and everything over rdma_cm. So one of them
//! ends this way whenever the wire loses that frame, over any adapter. By then each message has arrived and was
//! compared.

use vrdma_lab::pair::Outcome;

/// The client's message about its send: the status, and the number that all ping-pongs give their sends.
const UNANSWERED: &str = "transport retry counter exceeded (12) for wr_id 2";

/// Whether the client lacks only the acknowledgement of its last message. A server that ended with status 0 has had all
/// messages, and acknowledgements of all of its own.
pub(super) fn is_lost(outcome: &Outcome) -> bool {
    outcome.server.status == 0 && outcome.client.stderr_text().contains(UNANSWERED)
}

#[cfg(test)]
mod tests {
    use vrdma_lab::guest::Output;

    use super::*;

    fn ended(server: i32, words: &str) -> Outcome {
        let output = |status, words: &str| Output {
            status,
            stdout: Vec::new(),
            stderr: words.into(),
        };
        Outcome {
            server: output(server, ""),
            client: output(1, words),
        }
    }

    #[test]
    fn only_after_a_content_server_is_it_the_last_word_that_was_lost() {
        let words = format!("Failed status {UNANSWERED}\nparse WC failed 2\n");
        assert!(is_lost(&ended(0, &words)));
        assert!(!is_lost(&ended(1, &words)));
        assert!(!is_lost(&ended(0, "invalid data in page 0\n")));
    }
}
