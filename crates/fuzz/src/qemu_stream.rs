//! The stream that a VM's QEMU writes into its network card's socket, in reads of any size, as the daemon's buffer sees
//! it.

use vrdma_wire::qemu_stream::{FRAME_BYTES_MAX, HEADER_BYTES, Piece, piece};

use crate::input::Input;

/// Runs an input: blocks that arrive one after the other.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut stream = Vec::new();
    let mut frames = Vec::new();
    while !input.is_empty() {
        stream.extend_from_slice(input.block());
        let Some(taken) = take(&stream, &mut frames) else {
            return;
        };
        stream.drain(..taken);
        assert!(
            stream.len() < HEADER_BYTES + FRAME_BYTES_MAX,
            "what waits for its rest is less than a frame"
        );
    }
}

/// Takes all complete frames and returns their bytes; `None` if the daemon drops the connection.
fn take(stream: &[u8], frames: &mut Vec<usize>) -> Option<usize> {
    let mut at = 0;
    loop {
        match piece(stream, at) {
            Piece::Whole(range) => {
                assert_eq!(range.start, at, "frames follow each other");
                let frame = range.len() - HEADER_BYTES;
                assert!((1..=FRAME_BYTES_MAX).contains(&frame));
                frames.push(frame);
                at = range.end;
            }
            Piece::Partial => return Some(at),
            Piece::Malformed(length) => {
                let fits = usize::try_from(length).is_ok_and(|it| it <= FRAME_BYTES_MAX);
                assert!(length == 0 || !fits, "a frame that fits is no fault");
                return None;
            }
        }
    }
}
