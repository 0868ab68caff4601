//! Workers that follow each other with the same connections.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use vrdma_threads::StreamRecords;

use super::*;

/// The records: the connection of each port, and whether it is amid a frame.
#[derive(Debug, Default)]
struct Book(Mutex<BTreeMap<Name, (OwnedFd, bool)>>);

impl StreamRecords for Book {
    fn connected(&self, port: &Name, stream: BorrowedFd<'_>) {
        let stream = stream.try_clone_to_owned().unwrap();
        self.0.lock().unwrap().insert(port.clone(), (stream, false));
    }

    fn disconnected(&self, port: &Name) {
        self.0.lock().unwrap().remove(port);
    }

    fn cut(&self, port: &Name, is_cut: bool) {
        let mut ports = self.0.lock().unwrap();
        ports.get_mut(port).unwrap().1 = is_cut;
    }
}

/// Starts a worker at two ports, with connections that another one has left.
fn follow(left: &mut BTreeMap<Name, (OwnedFd, bool)>) -> (Switch, Arc<Book>) {
    let (switch, book) = (Switch::start(), Arc::new(Book::default()));
    for port in [1, 2] {
        let left = left.remove(&port.to_string().parse::<Name>().unwrap());
        let past = PortPast {
            records: Some(Arc::clone(&book) as Arc<dyn StreamRecords>),
            left: left.filter(|(_, is_cut)| !is_cut).map(|(fd, _)| fd),
        };
        switch.plug_after(port, 0, past);
    }
    switch.runtime.block_on(switch.handle.go_on()).unwrap();
    (switch, book)
}

/// Kills a worker, and returns what it leaves: the connections stay open.
fn kill(worker: (Switch, Arc<Book>)) -> BTreeMap<Name, (OwnedFd, bool)> {
    let (switch, book) = worker;
    let left = std::mem::take(&mut *book.0.lock().unwrap());
    drop(switch);
    left
}

/// Connects two QEMUs that know each other.
fn connected(worker: &(Switch, Arc<Book>)) -> (Qemu, Qemu) {
    let (mut a, mut b) = (worker.0.connect(1), worker.0.connect(2));
    greet(&mut a, A, &mut b);
    greet(&mut b, B, &mut a);
    (a, b)
}

#[test]
fn the_next_worker_goes_on_amid_a_frame_that_comes() {
    let mut worker = follow(&mut BTreeMap::new());
    let (mut a, mut b) = connected(&worker);
    for length in [60, 1500, 9000] {
        let (first, second) = (frame(B, A, 1, 100), frame(B, A, 2, length));
        let (whole, cut) = (framed(&first), framed(&second));
        for at in [1, 4, 5, cut.len() - 1] {
            a.0.write_all(&[&whole[..], &cut[..at]].concat()).unwrap();
            b.expect(&first);
            worker = follow(&mut kill(worker));
            a.0.write_all(&cut[at..]).unwrap();
            b.expect(&second);
        }
    }
}

/// Reads frames until one has that content; each frame repeats one byte.
fn read_until(qemu: &mut Qemu, fill: u8) -> usize {
    let mut frames = 0;
    loop {
        let mut length = [0; 4];
        qemu.0.read_exact(&mut length).unwrap();
        let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
        qemu.0.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[..6], B);
        assert!(bytes[14..].iter().all(|byte| *byte == bytes[14]));
        frames += 1;
        if bytes[14] == fill {
            return frames;
        }
    }
}

/// A guest that reads late gets whole frames, some of which are lost with the worker.
#[test]
fn no_frame_is_torn_at_a_socket_that_is_full() {
    for length in [60, 1514, 9014] {
        let worker = follow(&mut BTreeMap::new());
        let (mut a, mut b) = connected(&worker);
        for _ in 0..(2 << 20) / length {
            a.send(&frame(B, A, 7, length));
        }
        // All frames are handled when this returns.
        a.send(&frame(A, B, 0, 60));
        worker.0.stats(1);
        let left = &mut kill(worker);
        assert!(left.values().all(|(_, is_cut)| !is_cut));
        let _worker = follow(left);
        let sender = std::thread::spawn(move || {
            for _ in 0..1000 {
                a.send(&frame(B, A, 9, 60));
            }
            a
        });
        assert!(read_until(&mut b, 9) > 1);
        drop(sender.join().unwrap());
    }
}

/// Waiting for the rest of a frame costs nothing.
#[test]
fn a_frame_that_does_not_end_holds_up_nobody() {
    let worker = follow(&mut BTreeMap::new());
    let (mut a, mut b) = connected(&worker);
    let long = framed(&frame(B, A, 3, 1500));
    a.0.write_all(&long[..700]).unwrap();
    for _ in 0..10 {
        let other = frame(A, B, 4, 60);
        b.send(&other);
        a.expect(&other);
    }
    a.0.write_all(&long[700..]).unwrap();
    b.expect(&long[4..]);
    drop(worker.0.connect(1));
}
