use super::*;

#[test]
fn bytes_of_every_value_survive() {
    let event = Event::Output {
        id: 7,
        stream: Stream::Stderr,
        bytes: Bytes((0..=255).collect()),
    };
    let mut line = Vec::new();
    send(&event, &mut line).unwrap();
    assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
    assert_eq!(receive::<Event>(&mut &line[..]).unwrap(), Some(event));
}

#[test]
fn text_stays_readable() {
    let mut line = Vec::new();
    send(
        &Request::Input {
            id: 1,
            bytes: Bytes(b"ls\n".to_vec()),
        },
        &mut line,
    )
    .unwrap();
    assert_eq!(line, b"{\"input\":{\"id\":1,\"bytes\":\"ls\\n\"}}\n");
}

#[test]
fn characters_that_are_no_bytes_are_refused() {
    let line = "{\"input\":{\"id\":1,\"bytes\":\"\u{20ac}\"}}\n";
    assert!(receive::<Request>(&mut line.as_bytes()).is_err());
}

#[test]
fn a_stream_ends_between_lines() {
    assert_eq!(receive::<Event>(&mut &b""[..]).unwrap(), None);
    assert!(receive::<Event>(&mut &b"{\"hel"[..]).is_err());
}

#[test]
fn an_endless_line_is_refused() {
    let endless = std::io::repeat(b' ');
    assert!(receive::<Event>(&mut io::BufReader::new(endless)).is_err());
}
