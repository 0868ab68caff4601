//! Both ends in one thread, and the frames between them.

use vrdma_api::{ArrivedContext, CONTEXT_BYTES_MAX, Ticket};
use vrdma_uplink::Keys;

use super::*;

fn keys(digits: &str) -> Keys {
    digits.repeat(32).parse().unwrap()
}

/// Checks the length of a frame, and returns what follows it.
fn body(frame: &[u8]) -> &[u8] {
    let (length, body) = frame.split_first_chunk::<LENGTH_BYTES>().unwrap();
    assert_eq!(usize::from(u16::from_be_bytes(*length)), body.len());
    body
}

fn sessions(source: &Keys, destination: &Keys) -> Result<(Session, Session), NoSession> {
    let (call, hello) = Call::begin(source).unwrap();
    let taken = take_call(destination, body(&hello));
    let (theirs, answer) = match taken {
        Ok(taken) => taken,
        Err(why) => {
            let told = refusal(why).unwrap();
            assert_eq!(call.take_answer(body(&told)).unwrap_err(), why);
            return Err(why);
        }
    };
    Ok((call.take_answer(body(&answer))?, theirs))
}

fn request(bytes: u64) -> Request {
    Request {
        adapter: "vm1".parse().unwrap(),
        ticket: Ticket::new(7),
        bytes,
    }
}

#[test]
fn a_context_goes_over() {
    let key = keys("5a");
    let (mut source, mut destination) = sessions(&key, &key).unwrap();
    let context: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
    let asked = source
        .seal(&request(context.len() as u64).encode())
        .unwrap();
    let asked = Request::decode(&destination.open(body(&asked)).unwrap()).unwrap();
    let mut incoming = Incoming::new(asked.bytes).unwrap();
    for piece in context.chunks(PIECE_BYTES_MAX) {
        assert!(!incoming.is_whole());
        let sealed = source.seal(piece).unwrap();
        incoming
            .take(&destination.open(body(&sealed)).unwrap())
            .unwrap();
    }
    assert!(incoming.is_whole());
    assert_eq!(incoming.finish(), context);
    let arrived = Answer::Arrived(ArrivedContext {
        config_space: vec![255; 256],
        records: 3,
        pages: 4,
        restored: false,
    });
    let answer = destination.seal(&arrived.encode()).unwrap();
    let said = source.open(body(&answer)).unwrap();
    assert_eq!(Answer::decode(&said), Ok(arrived));
}

#[test]
fn a_key_that_is_being_changed_is_taken() {
    let both: Keys = format!("{}\n{}", "11".repeat(32), "22".repeat(32))
        .parse()
        .unwrap();
    sessions(&keys("22"), &both).unwrap();
    sessions(&keys("11"), &both).unwrap();
    assert_eq!(
        sessions(&both, &keys("22")).unwrap_err(),
        NoSession::Key,
        "the first is used"
    );
}

#[test]
fn other_ends_are_told_apart() {
    let key = keys("5a");
    assert_eq!(sessions(&key, &keys("5b")).unwrap_err(), NoSession::Key);
    let (call, hello) = Call::begin(&key).unwrap();
    let mut newer = hello.clone();
    newer[LENGTH_BYTES + 9] = 2;
    let why = take_call(&key, body(&newer)).unwrap_err();
    assert_eq!(why, NoSession::Version(2));
    let ssh = b"SSH-2.0-OpenSSH_9.7\r\n";
    assert_eq!(take_call(&key, ssh).unwrap_err(), NoSession::Stranger);
    assert_eq!(call.take_answer(ssh).unwrap_err(), NoSession::Stranger);
    assert_eq!(refusal(NoSession::Stranger), None);
    // A destination of another version refuses this one.
    let (call, _) = Call::begin(&key).unwrap();
    let mut told = refusal(NoSession::Version(1)).unwrap();
    told[LENGTH_BYTES + 9] = 2;
    let why = call.take_answer(body(&told)).unwrap_err();
    assert!(why.to_string().contains("use the same release"), "{why}");
}

#[test]
fn a_recorded_call_opens_nothing() {
    let key = keys("5a");
    let (call, hello) = Call::begin(&key).unwrap();
    let (_, answer) = take_call(&key, body(&hello)).unwrap();
    let mut source = call.take_answer(body(&answer)).unwrap();
    let asked = source.seal(&request(0).encode()).unwrap();
    let (mut second, _) = take_call(&key, body(&hello)).unwrap();
    assert_eq!(second.open(body(&asked)), Err(Broken));
}

#[test]
fn frames_that_were_touched_end_the_session() {
    let key = keys("5a");
    let (mut source, mut destination) = sessions(&key, &key).unwrap();
    let first = source.seal(b"first").unwrap();
    let second = source.seal(b"second").unwrap();
    assert_eq!(destination.open(body(&second)), Err(Broken), "left out");
    assert_eq!(destination.open(body(&first)).unwrap(), b"first");
    assert_eq!(destination.open(body(&first)), Err(Broken), "repeated");
    let mut changed = second.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert_eq!(destination.open(body(&changed)), Err(Broken));
    assert_eq!(destination.open(&[]), Err(Broken));
    assert_eq!(source.seal(&vec![0; PIECE_BYTES_MAX + 1]), Err(Broken));
}

#[test]
fn a_context_is_as_long_as_announced() {
    let too_long = Incoming::new(CONTEXT_BYTES_MAX as u64 + 1).unwrap_err();
    assert!(too_long.contains("at most"), "{too_long}");
    assert!(Incoming::new(u64::MAX).is_err());
    let mut incoming = Incoming::new(3).unwrap();
    assert_eq!(incoming.take(&[]), Err(Broken));
    incoming.take(&[1, 2]).unwrap();
    assert_eq!(incoming.take(&[3, 4]), Err(Broken));
    incoming.take(&[3]).unwrap();
    assert_eq!(incoming.finish(), [1, 2, 3]);
}

#[test]
fn other_words_are_none() {
    for said in [&b""[..], b"{}", b"[1]", b"\"arrived\"", b"\xff"] {
        assert_eq!(Request::decode(said), Err(Broken));
        assert_eq!(Answer::decode(said), Err(Broken));
    }
    let more = br#"{"adapter":"vm1","ticket":"00000000000000000000000000000007","bytes":0,"x":1}"#;
    assert_eq!(Request::decode(more), Err(Broken));
    let Answer::Refused(told) = Answer::refused(&"ä".repeat(100_000)) else {
        unreachable!()
    };
    assert!(told.len() < PIECE_BYTES_MAX);
}
