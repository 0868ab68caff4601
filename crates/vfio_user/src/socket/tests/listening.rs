//! Sockets that QEMU connects to, and their files.

use super::*;

fn path_in(folder: &TempDir) -> PathBuf {
    folder.path().join("vm.sock")
}

#[test]
fn a_listener_gives_clients_one_after_the_other() {
    let folder = TempDir::new().unwrap();
    let listener = Listener::bind(path_in(&folder), Closing::by(drop)).unwrap();
    assert!(listener.accept().unwrap().is_none());
    let first = UnixStream::connect(listener.path()).unwrap();
    let connection = listener.accept().unwrap().expect("a client waits");
    let mut second = UnixStream::connect(listener.path()).unwrap();
    assert!(listener.accept().unwrap().is_some(), "dropped at once");
    assert_eq!(second.read(&mut [0]).unwrap(), 0, "hung up");
    drop((first, connection));
    let _third = UnixStream::connect(listener.path()).unwrap();
    assert!(listener.accept().unwrap().is_some());
}

#[test]
fn the_socket_is_its_owners_alone_and_goes_with_the_listener() {
    let folder = TempDir::new().unwrap();
    let path = path_in(&folder);
    let listener = Listener::bind(&path, Closing::by(drop)).unwrap();
    let file = fs::symlink_metadata(&path).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn a_socket_that_somebody_serves_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let first = Listener::bind(path_in(&folder), Closing::by(drop)).unwrap();
    let error = Listener::bind(path_in(&folder), Closing::by(drop)).unwrap_err();
    assert!(matches!(error, ListenerError::InUse(_)));
    assert!(
        error
            .to_string()
            .starts_with("another process serves the socket /")
    );
    assert!(UnixStream::connect(first.path()).is_ok());
}

#[test]
fn a_socket_that_a_dead_process_left_is_replaced() {
    let folder = TempDir::new().unwrap();
    drop(UnixListener::bind(path_in(&folder)).unwrap());
    assert!(path_in(&folder).exists());
    let listener = Listener::bind(path_in(&folder), Closing::by(drop)).unwrap();
    assert!(UnixStream::connect(listener.path()).is_ok());
}

#[test]
fn the_file_of_a_successor_is_not_removed() {
    let folder = TempDir::new().unwrap();
    let first = Listener::bind(path_in(&folder), Closing::by(drop)).unwrap();
    fs::rename(first.path(), folder.path().join("old")).unwrap();
    let second = Listener::bind(path_in(&folder), Closing::by(drop)).unwrap();
    drop(first);
    assert!(UnixStream::connect(second.path()).is_ok());
}

#[test]
fn other_files_are_never_replaced() {
    let folder = TempDir::new().unwrap();
    fs::write(path_in(&folder), "precious").unwrap();
    let error = Listener::bind(path_in(&folder), Closing::by(drop)).unwrap_err();
    assert!(matches!(error, ListenerError::NotASocket(_)));
    assert_eq!(fs::read_to_string(path_in(&folder)).unwrap(), "precious");
}

#[test]
fn a_path_that_does_not_fit_is_named_with_its_limit() {
    let folder = TempDir::new().unwrap();
    let room = 107 - folder.path().as_os_str().len() - 1;
    let fits = folder.path().join("x".repeat(room));
    assert!(UnixStream::connect(Listener::bind(&fits, Closing::by(drop)).unwrap().path()).is_ok());
    let error =
        Listener::bind(folder.path().join("x".repeat(room + 1)), Closing::by(drop)).unwrap_err();
    assert!(matches!(
        error,
        ListenerError::PathTooLong { length: 108, .. }
    ));
    assert!(
        error
            .to_string()
            .ends_with("has 108 bytes and the limit is 107: choose a shorter one")
    );
}

#[test]
fn a_folder_that_does_not_exist_is_an_error() {
    let folder = TempDir::new().unwrap();
    let error = Listener::bind(folder.path().join("none/vm.sock"), Closing::by(drop)).unwrap_err();
    assert!(matches!(
        error,
        ListenerError::Io {
            errno: Errno::NOENT,
            ..
        }
    ));
}

/// A client that writes without end is served in pieces, so that the caller can serve others in between.
#[test]
fn a_flood_is_taken_in_pieces() {
    let mut pair = Pair::greeted();
    let reset = Header {
        id: 1,
        command: C::DeviceReset as u16,
        kind: Kind::Command { no_reply: true },
        payload: 0,
    };
    let resets = 4096;
    let mut flood = Vec::new();
    (0..resets).for_each(|_| flood.extend(reset.emit()));
    pair.send(&flood);
    let mut pieces = 0;
    while pair.server.on_readable(&mut pair.device).unwrap() == Progress::Worked {
        pieces += 1;
    }
    assert_eq!(pieces, flood.len().div_ceil(super::connection::READ_BYTES));
}
