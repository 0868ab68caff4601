//! Throughput of sockets and of copies.

use std::env;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Floor;
use crate::latency::other;

/// How long each method is measured.
const SPAN: Duration = Duration::from_millis(300);

/// Sizes of a message, with the cell's name.
const SIZES: [(usize, &str); 2] = [
    (64 << 10, "bandwidth, 64 KiB"),
    (1 << 20, "bandwidth, 1 MiB"),
];

/// More than a core's own cache holds, so that it is copied from memory or from a cache that all cores share.
const LONG: usize = 64 << 20;

/// Bytes that a daemon between two processes moves at a time, so that both copies of them stay in the cache.
const PIECE: usize = 128 << 10;

pub(super) fn all() -> io::Result<Vec<Floor>> {
    let mut floors = Vec::new();
    for (size, cell) in SIZES {
        let mut push = |name, rate: io::Result<f64>| -> io::Result<()> {
            floors.push(Floor {
                cell,
                name,
                unit: "MB/s",
                typical: rate?,
                tail: None,
            });
            Ok(())
        };
        push("memcpy", memcpy(size))?;
        push("process_vm read", process_vm(size, false))?;
        push("process_vm read and write", process_vm(size, true))?;
        push("Unix socket", unix(size))?;
        push("TCP loopback", tcp(size))?;
    }
    floors.push(Floor {
        cell: "bandwidth, 64 MiB",
        name: "memcpy",
        unit: "MB/s",
        typical: memcpy(LONG)?,
        tail: None,
    });
    Ok(floors)
}

/// Megabytes a second when `once`, which moves `size` bytes, is repeated.
fn rate(size: usize, mut once: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    once()?;
    let (start, mut times) = (Instant::now(), 0u64);
    while start.elapsed() < SPAN {
        once()?;
        times += 1;
    }
    Ok(times as f64 * size as f64 / start.elapsed().as_secs_f64() / 1e6)
}

fn memcpy(size: usize) -> io::Result<f64> {
    let (from, mut to) = (vec![1u8; size], vec![0u8; size]);
    rate(size, || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        Ok(())
    })
}

/// Copies out of one process and, if `deliver`, into another: what a daemon does for ordinary memory.
fn process_vm(size: usize, deliver: bool) -> io::Result<f64> {
    let (source, target) = (Lender::start()?, Lender::start()?);
    let mut piece = vec![0u8; PIECE];
    rate(size, || {
        for offset in (0..size).step_by(PIECE) {
            let part = PIECE.min(size - offset);
            source.transfer(libc::process_vm_readv, offset, &mut piece[..part])?;
            if deliver {
                target.transfer(libc::process_vm_writev, offset, &mut piece[..part])?;
            }
        }
        Ok(())
    })
}

type Transfer = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// A process that lends its memory.
struct Lender {
    child: Child,
    address: usize,
}

impl Lender {
    fn start() -> io::Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .arg("memory")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().parse().map_err(io::Error::other)?;
        Ok(Self { child, address })
    }

    fn transfer(&self, call: Transfer, offset: usize, piece: &mut [u8]) -> io::Result<()> {
        let local = libc::iovec {
            iov_base: piece.as_mut_ptr().cast(),
            iov_len: piece.len(),
        };
        let remote = libc::iovec {
            iov_base: (self.address + offset) as *mut _,
            iov_len: piece.len(),
        };
        // SAFETY: `local` is `piece`, which nobody else uses meanwhile; `remote` is only a number here,
        // which the kernel checks against the other process's memory.
        let moved = unsafe { call(self.child.id() as libc::pid_t, &local, 1, &remote, 1, 0) };
        match usize::try_from(moved) {
            Ok(moved) if moved == piece.len() => Ok(()),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        // Closing its input ends the child; a failure means that it has ended already.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The child's side: prints where its memory is, and keeps the memory until the input ends.
pub(super) fn lend_memory() -> io::Result<()> {
    let (largest, _) = SIZES[SIZES.len() - 1];
    let memory = vec![1u8; largest];
    println!("{}", black_box(&memory).as_ptr() as usize);
    io::stdin().read_to_end(&mut Vec::new())?;
    black_box(memory);
    Ok(())
}

fn unix(size: usize) -> io::Result<f64> {
    let path = env::temp_dir().join(format!("floors-{}.socket", std::process::id()));
    let listener = UnixListener::bind(&path)?;
    let child = other("drain-unix", &path.to_string_lossy())?;
    let (stream, _) = listener.accept()?;
    std::fs::remove_file(&path)?;
    pour(stream, child, size)
}

fn tcp(size: usize) -> io::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let child = other("drain-tcp", &listener.local_addr()?.to_string())?;
    let (stream, _) = listener.accept()?;
    pour(stream, child, size)
}

fn pour(mut stream: impl Write, mut child: Child, size: usize) -> io::Result<f64> {
    let message = vec![1u8; size];
    let rate = rate(size, || stream.write_all(&message));
    drop(stream);
    child.wait()?;
    rate
}

pub(super) fn drain_tcp(address: &str) -> io::Result<()> {
    drain(TcpStream::connect(address)?)
}

pub(super) fn drain_unix(path: &str) -> io::Result<()> {
    drain(UnixStream::connect(path)?)
}

fn drain(mut stream: impl Read) -> io::Result<()> {
    let (largest, _) = SIZES[SIZES.len() - 1];
    let mut buffer = vec![0; largest];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}
