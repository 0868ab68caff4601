//! The thread, with fake QEMUs at its sockets.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use vrdma_switch::MAX_FRAME;
use vrdma_wire::qemu_stream::FRAME_BYTES_MAX;

use vrdma_threads::mailbox;

use super::*;

mod kept;

const A: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];
const B: [u8; 6] = [0x52, 0x54, 0, 0, 0, 2];
const C: [u8; 6] = [0x52, 0x54, 0, 0, 0, 3];
const ALL: [u8; 6] = [0xff; 6];

/// Limit after which a hang counts as a failure.
const PATIENCE: Duration = Duration::from_secs(20);

struct Switch {
    folder: tempfile::TempDir,
    handle: EthernetHandle,
    runtime: tokio::runtime::Runtime,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    fn start() -> Self {
        let (handle, thread) = start(
            vec![mailbox().unwrap().0],
            &Default::default(),
            Default::default(),
        )
        .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            handle,
            runtime,
            thread: Some(thread),
        }
    }

    /// Adds a port to a group, with its number as name.
    fn plug(&self, port: u32, group: u32) {
        self.plug_after(port, group, PortPast::default());
    }

    /// The same for a port that another worker has served.
    fn plug_after(&self, port: u32, group: u32, past: PortPast) {
        let socket = BoundSocket::bind(&self.folder.path().join(port.to_string()), 0o600).unwrap();
        let port = EthernetPort {
            name: port.to_string().parse().unwrap(),
            port: PortId(port),
            segment: Default::default(),
            group: GroupId(group),
            mac: Mac([0x52, 0x54, 0, 0, 0, port as u8]),
            may_send_roce: false,
            kept: Default::default(),
            away: false,
            past,
            behind: Behind::Guest(socket),
        };
        self.runtime.block_on(self.handle.add_port(port)).unwrap();
    }

    fn connect(&self, port: u32) -> Qemu {
        let stream = UnixStream::connect(self.folder.path().join(port.to_string())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Qemu(stream)
    }

    fn stats(&self, port: u32) -> EthernetStats {
        let snapshot = self.runtime.block_on(self.handle.snapshot()).unwrap();
        snapshot
            .into_iter()
            .find(|(id, _)| *id == PortId(port))
            .unwrap()
            .1
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.handle.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

struct Qemu(UnixStream);

impl Qemu {
    fn send(&mut self, frame: &[u8]) {
        self.0.write_all(&framed(frame)).unwrap();
    }

    fn expect(&mut self, frame: &[u8]) {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut bytes).unwrap();
        assert!(
            bytes == frame,
            "got {} bytes instead of {}",
            bytes.len(),
            frame.len()
        );
    }

    fn expect_closed(&mut self) {
        let end = self.0.read(&mut [0; 1]);
        assert!(
            matches!(end, Ok(0))
                || end.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        );
    }
}

fn framed(frame: &[u8]) -> Vec<u8> {
    [
        &u32::try_from(frame.len()).unwrap().to_be_bytes()[..],
        frame,
    ]
    .concat()
}

fn frame(to: [u8; 6], from: [u8; 6], fill: u8, length: usize) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[0x08, 0x00]].concat();
    frame.resize(length, fill);
    frame
}

/// Connects two guests of one group that know each other.
fn pair(switch: &Switch) -> (Qemu, Qemu) {
    switch.plug(1, 0);
    switch.plug(2, 0);
    let (mut a, mut b) = (switch.connect(1), switch.connect(2));
    greet(&mut a, A, &mut b);
    greet(&mut b, B, &mut a);
    (a, b)
}

/// Sends a broadcast from one guest to the other, again and again until the other is connected.
fn greet(from: &mut Qemu, mac: [u8; 6], to: &mut Qemu) {
    let hello = frame(ALL, mac, 0, 60);
    to.0.set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let mut heard = [0; 64];
    loop {
        from.send(&hello);
        match to.0.read(&mut heard) {
            Ok(64) => break,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heard[4..], hello);
    to.0.set_read_timeout(Some(PATIENCE)).unwrap();
}

#[test]
fn frames_of_every_length_arrive_in_order() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let lengths = [60, 61, 1514, 1518, MAX_FRAME];
    for (fill, length) in (1..).zip(lengths) {
        a.send(&frame(B, A, fill, length));
        b.expect(&frame(B, A, fill, length));
        b.send(&frame(A, B, fill, length));
        a.expect(&frame(A, B, fill, length));
    }
}

#[test]
fn a_frame_that_the_bridge_refuses_is_counted_and_no_more() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let frames = [
        (frame(B, A, 1, MAX_FRAME + 1), "oversize"),
        (frame(B, A, 1, FRAME_BYTES_MAX), "oversize"),
        (vec![0; 13], "runt"),
        (frame(B, B, 1, 60), "spoofed-source"),
        (frame(B, ALL, 1, 60), "bad-source"),
    ];
    for (frame, _) in &frames {
        a.send(frame);
    }
    a.send(&frame(B, A, 2, 60));
    b.expect(&frame(B, A, 2, 60));
    let drops = switch.stats(1).drops;
    for (_, reason) in &frames {
        assert!(drops.contains_key(*reason), "{reason} in {drops:?}");
    }
}

#[test]
fn a_frame_may_come_in_crumbs() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let bytes = [framed(&frame(B, A, 1, 70)), framed(&frame(B, A, 2, 90))].concat();
    for byte in bytes {
        a.0.write_all(&[byte]).unwrap();
    }
    b.expect(&frame(B, A, 1, 70));
    b.expect(&frame(B, A, 2, 90));
}

#[test]
fn port_groups_do_not_hear_each_other() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    switch.plug(3, 1);
    switch.plug(4, 1);
    let (mut c, mut d) = (switch.connect(3), switch.connect(4));
    greet(&mut c, C, &mut d);
    a.send(&frame(ALL, A, 7, 60));
    b.expect(&frame(ALL, A, 7, 60));
    // The same addresses in the other group: frames are neither flooded nor learned across.
    c.send(&frame(A, B, 8, 60));
    d.expect(&frame(A, B, 8, 60));
    a.send(&frame(B, A, 9, 60));
    b.expect(&frame(B, A, 9, 60));
    assert_eq!(switch.stats(3).rx_frames, 0);
}

#[test]
fn a_slow_guest_loses_its_own_frames_only() {
    let switch = Switch::start();
    let (mut a, mut slow) = pair(&switch);
    switch.plug(3, 0);
    let mut c = switch.connect(3);
    greet(&mut c, C, &mut a);
    slow.expect(&frame(ALL, C, 0, 60));
    let big = frame(B, A, 1, 9000);
    let sent = 2 * client::BACKLOG_BYTES_MAX / big.len();
    for _ in 0..sent {
        a.send(&big);
    }
    a.send(&frame(C, A, 2, 60));
    c.expect(&frame(C, A, 2, 60));
    let stats = switch.stats(2);
    let dropped = stats.drops["congested"];
    assert!(dropped > 0);
    for _ in 0..sent as u64 - dropped {
        slow.expect(&big);
    }
    a.send(&frame(B, A, 3, 60));
    slow.expect(&frame(B, A, 3, 60));
}

#[test]
fn a_burst_of_tiny_frames_arrives_whole() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let burst: Vec<_> = (0..4 * client::FRAMES_MAX)
        .map(|number| frame(B, A, number as u8, 20))
        .collect();
    let bytes: Vec<u8> = burst.iter().flat_map(|frame| framed(frame)).collect();
    a.0.write_all(&bytes).unwrap();
    for frame in &burst {
        b.expect(frame);
    }
}

#[test]
fn a_length_that_no_qemu_sends_ends_the_connection() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let too_long = u32::try_from(FRAME_BYTES_MAX).unwrap() + 1;
    for length in [0, too_long, u32::MAX] {
        let bytes = [framed(&frame(B, A, 5, 60)), length.to_be_bytes().to_vec()].concat();
        a.0.write_all(&bytes).unwrap();
        b.expect(&frame(B, A, 5, 60));
        a.expect_closed();
        a = switch.connect(1);
        greet(&mut a, A, &mut b);
    }
}

#[test]
fn one_client_at_a_time() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    switch.connect(1).expect_closed();
    a.send(&frame(B, A, 1, 60));
    b.expect(&frame(B, A, 1, 60));
}

#[test]
fn a_guest_that_comes_back_goes_on() {
    let switch = Switch::start();
    let (a, mut b) = pair(&switch);
    drop(a);
    let mut a = switch.connect(1);
    greet(&mut a, A, &mut b);
    b.send(&frame(A, B, 1, 60));
    a.expect(&frame(A, B, 1, 60));
}

#[test]
fn a_removed_port_is_gone_with_its_socket_and_guest() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    switch
        .runtime
        .block_on(switch.handle.remove_port(PortId(1)))
        .unwrap();
    a.expect_closed();
    assert!(!switch.folder.path().join("1").exists());
    b.send(&frame(A, B, 1, 60));
    switch.plug(1, 0);
    let mut a = switch.connect(1);
    greet(&mut a, A, &mut b);
}

#[test]
fn what_passes_is_counted() {
    let switch = Switch::start();
    switch.plug(1, 0);
    switch.plug(2, 0);
    let (mut a, mut b) = (switch.connect(1), switch.connect(2));
    greet(&mut a, A, &mut b);
    let (sender, receiver) = (switch.stats(1), switch.stats(2));
    assert!(sender.connected && receiver.connected);
    assert_eq!(sender.tx_bytes, sender.tx_frames * 60);
    let missed = receiver
        .drops
        .get("guest-not-connected")
        .copied()
        .unwrap_or(0);
    assert_eq!(receiver.rx_frames + missed, sender.tx_frames);
    assert_eq!((receiver.tx_frames, sender.rx_frames), (0, 0));
}
