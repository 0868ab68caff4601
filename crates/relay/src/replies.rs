//! Answers of the destination's QEMU on the return path, read as far as one answer is awaited.
//!
//! The relay asks by a PING of its own whether QEMU has read all before it. Its PONG is removed; all else is passed on.

/// `MIG_CMD_PING` with a number of four bytes, as a command in the stream.
const PING: [u8; 5] = [8, 0, 2, 0, 4];

/// `MIG_RP_MSG_PONG` and the length of its number.
const PONG: [u8; 4] = [0, 2, 0, 4];

/// Type and length.
const HEADER_BYTES: usize = 4;

/// A number that QEMU does not use for its own pings: it counts from 1.
const NUMBER: [u8; 4] = *b"vrdm";

/// The PING.
pub(crate) fn ping() -> Vec<u8> {
    [&PING[..], &NUMBER].concat()
}

/// Reads answers until the PONG to ours.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// Bytes of an answer that is not complete.
    held: Vec<u8>,
}

impl Replies {
    /// Takes a piece; returns the bytes to pass to the source, and whether our PONG was in it. All behind that is
    /// passed on.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> (Vec<u8>, bool) {
        let mut passed = Vec::new();
        self.held.extend_from_slice(piece);
        while let Some(bytes) = complete(&self.held) {
            let answer: Vec<u8> = self.held.drain(..bytes).collect();
            if answer[..HEADER_BYTES] == PONG && answer[HEADER_BYTES..] == NUMBER {
                passed.append(&mut self.held);
                return (passed, true);
            }
            passed.extend(answer);
        }
        (passed, false)
    }
}

/// The length of the first answer, if it is complete; at most 64 KiB with its header.
fn complete(held: &[u8]) -> Option<usize> {
    let [_, _, high, low] = *held.first_chunk()?;
    let bytes = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
    (held.len() >= bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_answer_is_taken_out_whatever_the_pieces() {
        let other = [0, 2, 0, 4, 0, 0, 0, 1];
        let ours = [&PONG[..], &NUMBER].concat();
        let behind = [0, 1, 0, 4, 0, 0];
        let all = [&other[..], &ours, &behind].concat();
        for cut in 0..=all.len() {
            let mut replies = Replies::default();
            let (mut passed, mut found) = replies.feed(&all[..cut]);
            match found {
                true => passed.extend(&all[cut..]),
                false => {
                    let (more, now) = replies.feed(&all[cut..]);
                    passed.extend(more);
                    found = now;
                }
            }
            assert!(found, "cut at {cut}");
            assert_eq!(passed, [&other[..], &behind].concat(), "cut at {cut}");
        }
    }
}
