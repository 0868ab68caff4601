use super::*;

fn bind(path: &Path) -> Result<BoundSocket, String> {
    BoundSocket::bind(path, 0o600).map_err(|error| error.to_string())
}

#[test]
fn the_file_lives_as_long_as_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let socket = bind(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(socket);
    assert!(!path.exists());
}

#[test]
fn a_stale_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    bind(&path).unwrap();
}

#[test]
fn a_living_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let _first = bind(&path).unwrap();
    let sentence = bind(&path).unwrap_err();
    assert!(
        sentence.contains("in use by a running process"),
        "{sentence}"
    );
    assert!(UnixStream::connect(&path).is_ok());
}

#[test]
fn other_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    fs::write(&path, "precious").unwrap();
    let sentence = bind(&path).unwrap_err();
    assert!(sentence.contains("is not a socket"), "{sentence}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_file_that_took_our_place_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let socket = bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    drop(socket);
    assert!(path.exists());
}

#[test]
fn long_paths_are_refused_before_the_kernel_sees_them() {
    let folder = Path::new("/tmp").join("x".repeat(socket_path::PATH_BYTES_MAX - 6));
    assert_eq!(
        socket_path::check_length(&folder.join("")),
        socket_path::check_length(&folder)
    );
    let sentence = bind(&folder.join("s")).unwrap_err();
    assert!(sentence.contains("allow 107"), "{sentence}");
}

#[test]
fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let sentence = bind(&folder.path().join("no/s")).unwrap_err();
    assert!(
        sentence.contains("check that its folder exists"),
        "{sentence}"
    );
}
