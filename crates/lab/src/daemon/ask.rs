//! A question to the control API.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

/// A daemon that takes longer is stuck.
const LIMIT: Duration = Duration::from_secs(20);

/// What is at a path, which the daemon says in one piece and then hangs up.
pub(super) fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T> {
    let answer = exchange(socket, path).context("vrdmad does not answer")?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("vrdmad's answer has no end of its head")?;
    let first = head.lines().next().unwrap_or_default();
    ensure!(
        first.starts_with("HTTP/1.1 200 "),
        "vrdmad answered {first}: {body}"
    );
    serde_json::from_str(body).with_context(|| format!("vrdmad answered {body:?}"))
}

fn exchange(socket: &Path, path: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: vrdmad\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
