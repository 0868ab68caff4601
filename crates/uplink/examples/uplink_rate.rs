//! Packets a second of one core that sends and receives in turn, over a veth pair and over a tunnel on loopback:
//!
//! ```text
//! unshare --user --map-root-user --net cargo run --release -p vrdma-uplink --example uplink_rate
//! ```
//! One line for each kind and frame length: frames and megabytes for each second of processor time, and the share that
//! arrived.

use std::process::Command;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use vrdma_uplink::{Hop, OpenError, PeerSpec, Port, Ports, Segment, TunnelConfig};

/// Frames between two flushes, as in a busy shard.
const BURST: usize = 64;
const MEASURED: Duration = Duration::from_secs(1);
/// Ethernet, IPv4, UDP, BTH, RETH and ICRC around payloads of 0, 1024 and 4096 bytes.
const LENGTHS: [usize; 3] = [74, 1098, 4170];

/// Returns the processor time of this thread, which other work on the machine does not stretch.
fn worked() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Makes a frame that filters take for RoCEv2.
fn roce(len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(((len - 14) as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0xc0, 0, 0x12, 0xb7]);
    frame.extend(((len - 34) as u16).to_be_bytes());
    frame.resize(len, 0);
    frame
}

fn measure(name: &str, segment: Segment, from: &mut Port, to: &mut Port) -> std::io::Result<()> {
    for len in LENGTHS {
        let frame = roce(len);
        let (mut sent, mut taken) = (0u64, 0u64);
        let started = worked();
        while worked() - started < MEASURED {
            for _ in 0..BURST {
                from.send(Hop::to(segment), &frame);
            }
            from.flush();
            sent += BURST as u64;
            while to.receive(&mut |_| {
                taken += 1;
                true
            })? > 0
            {}
        }
        let rate = taken as f64 / (worked() - started).as_secs_f64();
        println!(
            "{name:6} {len:5} bytes  {rate:9.0} frames/s  {:7.1} MB/s  {:5.1} % arrived",
            rate * len as f64 / 1e6,
            taken as f64 * 100.0 / sent as f64,
        );
    }
    Ok(())
}

fn tunnel() -> Result<Ports, OpenError> {
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    Ports::tunnel(&TunnelConfig { local })
}

/// Measures sealing as in a tunnel, after a session was agreed on.
fn measure_sealed() -> Result<(), Box<dyn std::error::Error>> {
    let (mut a, mut b) = (tunnel()?, tunnel()?);
    let keys = Some("5a".repeat(32).parse()?);
    if let (Some(to), Some(from)) = (b.roce.local(), a.roce.local()) {
        let keys = |address| PeerSpec {
            keys: keys.clone(),
            ..PeerSpec::from(address)
        };
        b.add_peer(keys(from))?;
        a.add_peer(keys(to))?;
    }
    while b.roce.counters().received_frames == 0 {
        a.roce.send(Hop::to(Segment::Vni(1)), &roce(74));
        a.roce.flush();
        for port in [&mut b.roce, &mut a.roce] {
            port.receive(&mut |_| true)?;
        }
    }
    Ok(measure(
        "sealed",
        Segment::Vni(1),
        &mut a.roce,
        &mut b.roce,
    )?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let made = Command::new("sh")
        .args([
            "-ec",
            "ip link set lo up; ip link add rate0 mtu 9000 type veth peer name rate1 mtu 9000
             ip link set rate0 up; ip link set rate1 up; sleep 1",
        ])
        .status()?;
    if !made.success() {
        return Err("no veth pair could be made; run this in a namespace, as its head says".into());
    }
    let (mut a, mut b) = (Ports::raw("rate0")?, Ports::raw("rate1")?);
    measure("raw", Segment::Untagged, &mut a.roce, &mut b.roce)?;

    let (mut a, mut b) = (tunnel()?, tunnel()?);
    if let (Some(to), Some(from)) = (b.roce.local(), a.roce.local()) {
        a.add_peer(to)?;
        b.add_peer(from)?;
    }
    measure("tunnel", Segment::Vni(1), &mut a.roce, &mut b.roce)?;
    measure_sealed()?;
    println!("raw {:?}", b.roce.counters());
    Ok(())
}
