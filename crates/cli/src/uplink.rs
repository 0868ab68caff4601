//! `vrdma uplink` and `vrdma peer`

use std::path::{Path, PathBuf};

use vrdma_api::{
    Endpoint, FrameStats, Name, Peer, PeerRequest, Uplink, UplinkKind, UplinkRequest, paths,
};
use vrdma_api_client::Client;

use crate::arguments::{PeerCommand, UplinkCommand, UplinkOptions};
use crate::failure::Failure;
use crate::portgroup::origin;
use crate::report::Report;
use crate::stats::drops;
use crate::table::{Column, bytes, facts, table};

const NONE: &str =
    "no uplinks; add one with `vrdma uplink add NAME --interface IF` or `--listen IP`";

pub(crate) fn run(client: &Client, command: &UplinkCommand) -> Result<Report, Failure> {
    match command {
        UplinkCommand::Add(options) => add(client, options),
        UplinkCommand::List => list(client),
        UplinkCommand::Show { name } => show(client, name),
        UplinkCommand::Remove { name } => remove(client, name),
    }
}

pub(crate) fn run_peer(client: &Client, command: &PeerCommand) -> Result<Report, Failure> {
    match command {
        PeerCommand::Add {
            address,
            uplink,
            stations,
            vnis,
            any_port,
            key,
        } => {
            let request = PeerRequest {
                uplink: uplink.clone(),
                address: *address,
                any_port: *any_port,
                key: key.as_deref().map(absolute).transpose()?,
                stations: stations.clone(),
                vnis: vnis.clone(),
            };
            add_peer(client, &request)
        }
        PeerCommand::List => list_peers(client),
        PeerCommand::Remove { address, uplink } => remove_peer(client, *address, uplink),
    }
}

fn add(client: &Client, options: &UplinkOptions) -> Result<Report, Failure> {
    let kind = match options.interface {
        Some(_) => UplinkKind::Raw,
        None => UplinkKind::Tunnel,
    };
    let request = UplinkRequest {
        name: options.name.clone(),
        kind,
        interface: options.interface.clone(),
        listen: options.listen,
        key: options.key.as_deref().map(absolute).transpose()?,
        faults: options.faults.clone(),
    };
    let added: Uplink = client.post(paths::UPLINKS, &request)?;
    let text = format!("uplink {} added until the daemon stops", added.name);
    Ok(Report::new(&added, text))
}

/// Makes a path absolute: the daemon has another working directory.
fn absolute(file: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(file)
        .map_err(|error| Failure::new(format!("{} is no path: {error}", file.display())))
}

fn list(client: &Client) -> Result<Report, Failure> {
    let uplinks: Vec<Uplink> = client.get(paths::UPLINKS)?;
    Ok(Report::new(&uplinks, list_text(&uplinks)))
}

fn show(client: &Client, name: &Name) -> Result<Report, Failure> {
    let uplink: Uplink = client.get(&paths::uplink(name))?;
    Ok(Report::new(&uplink, show_text(&uplink)))
}

fn remove(client: &Client, name: &Name) -> Result<Report, Failure> {
    client.delete(&paths::uplink(name))?;
    Ok(Report::new(
        &serde_json::json!({ "removed": name }),
        format!("uplink {name} removed"),
    ))
}

fn add_peer(client: &Client, request: &PeerRequest) -> Result<Report, Failure> {
    let added: Peer = client.post(paths::PEERS, request)?;
    let PeerRequest {
        uplink, address, ..
    } = &added.request;
    let text = format!("peer {address} of {uplink} added until the daemon stops");
    Ok(Report::new(&added, text))
}

fn list_peers(client: &Client) -> Result<Report, Failure> {
    const COLUMNS: &[Column] = &[
        Column::Text("PEER"),
        Column::Text("UPLINK"),
        Column::Text("STATIONS"),
        Column::Text("VNIS"),
        Column::Text("PORT"),
        Column::Text("SEALED"),
        Column::Text("FROM"),
    ];
    let peers: Vec<Peer> = client.get(paths::PEERS)?;
    let rows = peers.iter().map(|peer| {
        vec![
            peer.request.address.to_string(),
            peer.request.uplink.to_string(),
            any_or(&peer.request.stations),
            any_or(&peer.request.vnis),
            if peer.request.any_port {
                "any"
            } else {
                "its own"
            }
            .to_owned(),
            if peer.sealed { "yes" } else { "no" }.to_owned(),
            origin(peer.origin).to_owned(),
        ]
    });
    let none = "no peers; add one with `vrdma peer add IP --uplink TUNNEL`";
    let text = table(COLUMNS, rows.collect(), none);
    Ok(Report::new(&peers, text))
}

/// A peer's stations or networks; "any" if none are stated.
fn any_or(stated: &[impl ToString]) -> String {
    if stated.is_empty() {
        return "any".to_owned();
    }
    let stated: Vec<_> = stated.iter().map(ToString::to_string).collect();
    stated.join(" ")
}

fn remove_peer(client: &Client, address: Endpoint, uplink: &Name) -> Result<Report, Failure> {
    client.delete(&paths::peer(uplink, address))?;
    Ok(Report::new(
        &serde_json::json!({ "removed": address }),
        format!("peer {address} of {uplink} removed"),
    ))
}

pub(crate) fn list_text(uplinks: &[Uplink]) -> String {
    const COLUMNS: &[Column] = &[
        Column::Text("UPLINK"),
        Column::Text("KIND"),
        Column::Text("AT"),
        Column::Number("MTU"),
        Column::Number("PEERS"),
        Column::Text("FROM"),
        Column::Number("ROCE SENT"),
        Column::Number("ROCE RECEIVED"),
        Column::Number("ROCE DROPS"),
        Column::Number("ETH SENT"),
        Column::Number("ETH RECEIVED"),
        Column::Number("ETH DROPS"),
    ];
    table(COLUMNS, uplinks.iter().map(row).collect(), NONE)
}

fn row(uplink: &Uplink) -> Vec<String> {
    let mut row = vec![
        uplink.name.to_string(),
        uplink.kind.to_string(),
        place(uplink),
        uplink.mtu.to_string(),
        uplink.peers.len().to_string(),
        origin(uplink.origin).to_owned(),
    ];
    for frames in [&uplink.stats.roce, &uplink.stats.ethernet] {
        let drops: u64 = frames.drops.values().sum();
        row.extend([
            bytes(frames.tx_bytes),
            bytes(frames.rx_bytes),
            drops.to_string(),
        ]);
    }
    row
}

fn place(uplink: &Uplink) -> String {
    let interface = uplink.interface.as_ref().map(ToString::to_string);
    let listen = || uplink.listen.map(|listen| listen.to_string());
    interface.or_else(listen).unwrap_or_default()
}

fn show_text(uplink: &Uplink) -> String {
    let peers: Vec<_> = uplink.peers.iter().map(Endpoint::to_string).collect();
    let mut rows = vec![
        ("uplink", uplink.name.to_string()),
        ("kind", uplink.kind.to_string()),
        ("at", place(uplink)),
        ("MTU", uplink.mtu.to_string()),
        ("from", origin(uplink.origin).to_owned()),
    ];
    if uplink.kind == UplinkKind::Tunnel {
        rows.push(("peers", or_none(peers.join(" "))));
    }
    let key = uplink.key.as_ref();
    rows.extend(key.map(|key| ("key", key.display().to_string())));
    rows.extend(uplink.faults.clone().map(|faults| ("faults", faults)));
    let (roce, ethernet) = (&uplink.stats.roce, &uplink.stats.ethernet);
    rows.extend([
        ("RoCE sent", sent(roce)),
        ("RoCE received", received(roce)),
        ("RoCE drops", drops(&roce.drops)),
        ("Ethernet sent", sent(ethernet)),
        ("Ethernet received", received(ethernet)),
        ("Ethernet drops", drops(&ethernet.drops)),
    ]);
    let strange = |count: fn(&FrameStats) -> u64| count(roce) + count(ethernet);
    let counts = [
        ("contested", strange(|frames| frames.contested)),
        ("moved", strange(|frames| frames.moved)),
    ];
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    rows.extend(counts.map(|(name, count)| (name, count.to_string())));
    rows.extend(too_big(uplink).map(|hint| ("too big", hint)));
    facts(rows)
}

/// What to do about frames that were lost because they were too long.
fn too_big(uplink: &Uplink) -> Option<String> {
    let mtu = uplink.mtu;
    let lost = uplink.stats.ethernet.drops.get("too-big");
    lost.map(|_| {
        format!(
            "guests send longer packets than fit: set the MTU {mtu} in them (`ip link set DEVICE mtu {mtu}`), or raise the network's"
        )
    })
}

fn sent(frames: &FrameStats) -> String {
    format!("{} frames, {}", frames.tx_frames, bytes(frames.tx_bytes))
}

fn received(frames: &FrameStats) -> String {
    format!("{} frames, {}", frames.rx_frames, bytes(frames.rx_bytes))
}

fn or_none(text: String) -> String {
    if text.is_empty() {
        "none".to_owned()
    } else {
        text
    }
}
