//! The sockets of the fakes.

use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, Uri};
use tokio::net::UnixListener;

use super::{Lines, Shared};

pub(super) fn serve_daemon(folder: &Path, side: &'static str, world: &Shared) {
    let listener = StdListener::bind(folder.join(format!("{side}.sock"))).unwrap();
    listener.set_nonblocking(true).unwrap();
    let world = Arc::clone(world);
    let router = Router::new().fallback(async move |method: Method, path: Uri, body: Bytes| {
        world
            .lock()
            .unwrap()
            .daemon(side, &method, path.path(), &body)
    });
    thread::spawn(move || {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = UnixListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
    });
}

pub(super) fn serve_qemu(folder: &Path, side: &'static str, world: &Shared) {
    let listener = StdListener::bind(folder.join(format!("{side}.qmp"))).unwrap();
    let world = Arc::clone(world);
    thread::spawn(move || {
        // Serves one connection after the other, as QEMU does.
        while let Ok((stream, _)) = listener.accept() {
            if side == "destination" {
                world.lock().unwrap().destination = Some(stream.try_clone().unwrap());
            }
            let mut lines = Lines::new(stream);
            lines.say(&world.lock().unwrap().greeting(side));
            while let Some(request) = lines.next() {
                let answers = world.lock().unwrap().qemu(side, &request);
                answers.iter().for_each(|answer| lines.say(answer));
            }
        }
    });
}
