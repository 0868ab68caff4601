//! Messages of another daemon, or of any peer that reaches the port, to the place where contexts are handed over.

use vrdma_handover::{Answer, Call, Incoming, LENGTH_BYTES, Request, refusal, take_call};
use vrdma_uplink::Keys;

/// Reads the input as a first frame, as each message of a peer that has the key, and as a context in pieces.
pub fn run(input: &[u8]) {
    let keys: Keys = "5a".repeat(32).parse().expect("a key");
    if let Err(why) = take_call(&keys, input) {
        let _ = refusal(why);
    }
    let (call, hello) = Call::begin(&keys).expect("random numbers");
    assert!(call.take_answer(input).is_err(), "nobody has answered");
    let (mut session, _) = take_call(&keys, &hello[LENGTH_BYTES..]).expect("a call");
    assert!(session.open(input).is_err(), "nobody has said this");
    if let Ok(request) = Request::decode(input) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    if let Ok(answer) = Answer::decode(input) {
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }
    pieces(input);
}

/// Takes a context in pieces; the first byte is the announced length.
fn pieces(input: &[u8]) {
    let Some((announced, rest)) = input.split_first() else {
        return;
    };
    let mut incoming = Incoming::new((*announced).into()).expect("so little is taken");
    for piece in rest.chunks(7) {
        if incoming.take(piece).is_err() {
            break;
        }
    }
    assert!(incoming.finish().len() <= usize::from(*announced));
}
