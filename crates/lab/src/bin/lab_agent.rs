//! The agent inside a guest. Without arguments it serves the virtio-serial port; `lab_agent settled GROUP` reports when
//! a server is ready for its client, and `lab_agent finished GROUP` what the server does once the client has ended.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use vrdma_lab::agent::{protocol::PORT_NAME, serve, settled};

/// Interval of attempts at a port without a host.
const RECONNECT: Duration = Duration::from_millis(50);

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve_port(),
        ["settled", group] => report(group, settled::watch),
        ["finished", group] => report(group, settled::watch_end),
        _ => Err(io::Error::other(
            "usage: lab_agent [settled GROUP | finished GROUP]",
        )),
    }
}

fn report(group: &str, watch: fn(u32) -> settled::Settled) -> io::Result<()> {
    println!("{:?}", watch(group.parse().map_err(io::Error::other)?));
    Ok(())
}

fn serve_port() -> io::Result<()> {
    let port = File::options().read(true).write(true).open(find_port()?)?;
    serve(BufReader::new(HostPort(port.try_clone()?)), port)
}

/// Finds the port by its name in sysfs, since there is no /dev/virtio-ports without an udev.
fn find_port() -> io::Result<PathBuf> {
    for entry in fs::read_dir("/sys/class/virtio-ports")?.flatten() {
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if name.trim() == PORT_NAME {
            return Ok(PathBuf::from("/dev").join(entry.file_name()));
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("no virtio port named {PORT_NAME}"),
    ))
}

/// A port that reads as ended while no host is connected; the next host may come.
struct HostPort(File);

impl Read for HostPort {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer)? {
                0 => thread::sleep(RECONNECT),
                length => return Ok(length),
            }
        }
    }
}
