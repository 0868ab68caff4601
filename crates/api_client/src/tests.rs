//! The client against servers with scripted answers.

use std::future::pending;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use axum::routing::{get, post};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::oneshot;

use super::*;

/// A server, which ends with this value.
struct Server {
    folder: TempDir,
    _stop: oneshot::Sender<()>,
}

impl Server {
    fn start(router: Router) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = StdListener::bind(folder.path().join("socket")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = UnixListener::from_std(listener).unwrap();
                tokio::select! {
                    _ = axum::serve(listener, router) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            folder,
            _stop: stop,
        }
    }

    fn client(&self) -> Client {
        Client::new(self.folder.path().join("socket")).unwrap()
    }
}

/// A body without frames and without an end, which reports when it is dropped.
struct Endless(std::sync::mpsc::Sender<()>);

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

fn holding() -> (Server, Receiver<()>) {
    let (dropped, gone) = channel();
    let hold = post(async move || Body::new(Endless(dropped.clone())));
    let router = Router::new().route(&paths::hold(&"run-1".parse().unwrap()), hold);
    (Server::start(router), gone)
}

#[test]
fn one_client_asks_again_and_again() {
    let answer = get(async || "[1, 2]");
    let server = Server::start(Router::new().route("/list", answer));
    let client = server.client();
    for _ in 0..3 {
        assert_eq!(client.get::<Vec<u8>>("/list").unwrap(), [1, 2]);
    }
}

#[test]
fn bodies_go_and_come_as_they_are() {
    let router = Router::new().route("/echo", post(async |body: Bytes| body));
    let server = Server::start(router);
    let client = server.client();
    assert_eq!(client.post::<String>("/echo", &"a\n").unwrap(), "a\n");
    let answer = client.ask(Method::POST, "/echo", vec![0, 255]).unwrap();
    assert_eq!((answer.status, &*answer.body), (200, [0, 255].as_slice()));
    assert!(client.fetch("/echo").unwrap().is_empty());
}

#[test]
fn a_refusal_keeps_its_status_and_sentence() {
    let refusal = (StatusCode::CONFLICT, r#"{ "error": "it is in use" }"#);
    let server = Server::start(Router::new().fallback(async move || refusal));
    let error = server.client().delete("/v1/adapters/vm1").unwrap_err();
    assert!(matches!(&error, Error::Refused { status: 409, .. }));
    assert_eq!(error.to_string(), "it is in use");
}

#[test]
fn answers_of_others_are_not_understood() {
    for answer in [(200, "<html>"), (500, "no json")] {
        let answer = (StatusCode::from_u16(answer.0).unwrap(), answer.1);
        let server = Server::start(Router::new().fallback(async move || answer));
        let error = server.client().get::<u8>("/v1/status").unwrap_err();
        assert!(matches!(error, Error::NotUnderstood { .. }), "{error}");
    }
}

#[test]
fn an_answer_without_an_end_is_cut_off() {
    let long = get(async || vec![b' '; ANSWER_BYTES_MAX + 1]);
    let server = Server::start(Router::new().route("/long", long));
    let error = server.client().get::<u8>("/long").unwrap_err();
    assert!(matches!(error, Error::NotUnderstood { .. }), "{error}");
}

#[test]
fn patience_has_an_end() {
    let never = get(async || pending::<String>().await);
    let server = Server::start(Router::new().route("/never", never));
    let client = server.client().with_patience(Duration::from_millis(1));
    let error = client.get::<u8>("/never").unwrap_err();
    assert!(matches!(error, Error::Silent { .. }), "{error}");
}

#[test]
fn an_absent_daemon_is_told_from_one_that_does_not_listen() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let client = Client::new(&socket).unwrap();
    let sentence = || client.get::<u8>("/").unwrap_err().to_string();
    assert!(sentence().contains("does not exist"), "{}", sentence());
    drop(StdListener::bind(&socket).unwrap());
    assert!(sentence().contains("nobody listens"), "{}", sentence());
}

#[test]
fn a_hold_lasts_as_long_as_its_last_copy() {
    let (server, gone) = holding();
    let client = server.client();
    let held = client.hold(&"run-1".parse().unwrap()).unwrap();
    let copy = held.try_clone().unwrap();
    drop(held);
    // The server answers others meanwhile, and has not noticed that the client is still there.
    assert!(client.get::<u8>("/elsewhere").is_err());
    assert!(gone.try_recv().is_err());
    drop(copy);
    gone.recv().unwrap();
}

#[test]
fn a_hold_that_is_refused_says_why() {
    let refusal = (StatusCode::NOT_FOUND, r#"{ "error": "there is none" }"#);
    let server = Server::start(Router::new().fallback(async move || refusal));
    let error = server.client().hold(&"run-1".parse().unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "there is none");
}
