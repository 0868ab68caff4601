//! The device-properties check: compares `ibv_devinfo -v` in a guest with the published device and with the daemon's
//! view.
//!
//! ```text
//!  hca_id: rocep0s5f1                       {"adapter":{"name":"b","mac":"52:54:00:00:00:02"},
//!    vendor_id:      0x15ad                  "stats":{"name":"b","rdma":{"state":"active","gids":["fe80::..."]}}}
//!    GID[  0]:       fe80::5054:ff:fe00:2, RoCE v2
//!  52:54:00:00:00:02
//! ```
//!
//! The figure is the number of properties that agree; one that does not is the failure.

use std::net::Ipv6Addr;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Commands, Figure};

/// VMware's paravirtual RDMA adapter, as its stock driver knows it and the study shows it.
const PUBLISHED: &[(&str, &str)] = &[
    ("vendor_id:", "0x15ad"),
    ("vendor_part_id:", "2080"),
    ("transport:", "InfiniBand (0)"),
    ("phys_port_cnt:", "1"),
    ("state:", "PORT_ACTIVE (4)"),
    ("link_layer:", "Ethernet"),
    ("max_pkeys:", "1"),
];

pub(super) fn commands() -> Commands {
    Commands {
        server: String::new(),
        client: "ibv_devinfo -v; cat /sys/class/net/eth0/address".to_owned(),
    }
}

pub(super) fn figures(output: &str) -> Result<Vec<Figure>> {
    let adapter = adapter(output)?;
    let mut agree = 1;
    for (name, published) in PUBLISHED {
        let found = value(output, name)?;
        ensure!(found == *published, "{name} is {found}, not {published}");
        agree += 1;
    }
    let state = &adapter["stats"]["rdma"]["state"];
    ensure!(
        state == "active",
        "the daemon says that the adapter is {state}"
    );
    agree += 1;
    let shown = gids(output);
    let bound = adapter["stats"]["rdma"]["gids"].as_array();
    let bound = bound.context("the daemon tells no GIDs")?;
    ensure!(!bound.is_empty(), "the guest has bound no GID");
    for gid in bound {
        let gid: Ipv6Addr = gid.as_str().unwrap_or_default().parse()?;
        ensure!(
            shown.contains(&gid),
            "the guest does not show its GID {gid}"
        );
        agree += 1;
    }
    Ok(vec![Figure {
        size: "-".to_owned(),
        value: f64::from(agree),
        mean: None,
    }])
}

/// The daemon's description of the adapter that has the MAC of the guest's card.
fn adapter(output: &str) -> Result<Value> {
    let adapters = output
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let has = |adapter: &Value| {
        let mac = adapter["adapter"]["mac"].as_str();
        mac.is_some_and(|mac| output.lines().any(|line| line.trim() == mac))
    };
    let found = adapters.into_iter().find(has);
    found.context("no adapter of the daemon has the MAC of the guest's card")
}

fn value<'a>(output: &'a str, name: &str) -> Result<&'a str> {
    let lines = output.lines().map(str::trim);
    let found = lines.filter_map(|line| line.strip_prefix(name)).next();
    found
        .map(str::trim)
        .with_context(|| format!("ibv_devinfo printed no {name}"))
}

/// Parses lines such as `GID[  1]:  ::ffff:10.10.0.2, RoCE v2`.
fn gids(output: &str) -> Vec<Ipv6Addr> {
    let lines = output
        .lines()
        .filter(|line| line.trim().starts_with("GID["));
    let words = lines.filter_map(|line| line.split_once("]:"));
    let first =
        words.filter_map(|(_, rest)| rest.split([',', ' ', '\t']).find(|word| !word.is_empty()));
    first.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: &str = "\
hca_id:\trocep0s5f1
\ttransport:\t\t\tInfiniBand (0)
\tvendor_id:\t\t\t0x15ad
\tvendor_part_id:\t\t\t2080
\tphys_port_cnt:\t\t\t1
\tmax_pkeys:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tlink_layer:\t\tEthernet
\t\t\tGID[  0]:\t\tfe80::5054:ff:fe00:2, RoCE v2
\t\t\tGID[  1]:\t\t::ffff:10.10.0.2, RoCE v2
52:54:00:00:00:02
{\"adapter\":{\"mac\":\"52:54:00:00:00:01\"},\"stats\":{}}
{\"adapter\":{\"mac\":\"52:54:00:00:00:02\"},\"stats\":{\"rdma\":{\"state\":\"active\",\"gids\":[\"::ffff:10.10.0.2\"]}}}
";

    #[test]
    fn what_agrees_is_counted() {
        assert_eq!(figures(SEEN).unwrap()[0].value, 10.0);
    }

    #[test]
    fn what_differs_is_told() {
        for (from, to, told) in [
            ("0x15ad", "0x02c9", "vendor_id"),
            ("PORT_ACTIVE", "PORT_DOWN", "state"),
            ("\"active\"", "\"reset\"", "reset"),
            (
                "[\"::ffff:10.10.0.2\"]",
                "[\"::ffff:10.10.0.9\"]",
                "10.10.0.9",
            ),
            ("\n52:54:00:00:00:02", "", "MAC"),
            ("max_pkeys", "most", "max_pkeys"),
        ] {
            assert!(SEEN.contains(from), "{from}");
            let error = figures(&SEEN.replacen(from, to, 1)).unwrap_err();
            assert!(error.to_string().contains(told), "{from}: {error}");
        }
    }
}
