//! Options of commands that can run between two hosts.

use anyhow::{Result, ensure};
use clap::Args;
use vrdma_lab::wire::{Uplink, WireConfig};

/// Ethernet's MTU.
const USUAL_MTU: u16 = 1500;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Two hosts")]
pub(crate) struct WireArguments {
    /// 2 puts each guest on a host of its own: a network namespace with its own
    /// daemon, joined to the other by a veth pair
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    hosts: u8,
    /// How the daemons reach each other: raw (the guests' own frames), tunnel (VXLAN)
    /// or sealed (a tunnel with a key); raw without
    #[arg(long)]
    uplink: Option<Uplink>,
    /// The veth pair's MTU; 1500 without
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,
    #[command(flatten)]
    faults: Faults,
}

/// Faults of the daemons' uplinks, each as in the daemon's configuration.
#[derive(Args, Clone, Debug)]
struct Faults {
    /// Share of frames to lose, as in 1%
    #[arg(long, value_name = "SHARE")]
    loss: Option<String>,
    /// Time by which every frame is delayed, as in 1ms
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// Share of frames that arrive behind later ones
    #[arg(long, value_name = "SHARE")]
    reorder: Option<String>,
    /// Share of frames that arrive twice
    #[arg(long, value_name = "SHARE")]
    duplicate: Option<String>,
    /// Share of frames with a wrong bit
    #[arg(long, value_name = "SHARE")]
    corrupt: Option<String>,
    /// Seed of the random numbers
    #[arg(long, value_name = "NUMBER")]
    seed: Option<String>,
}

impl WireArguments {
    /// The wire, if two hosts are requested.
    pub(crate) fn wire(&self) -> Result<Option<WireConfig>> {
        let faults = self.faults.text();
        if self.hosts == 1 {
            let alone = self.uplink.is_none() && self.mtu.is_none() && faults.is_empty();
            ensure!(
                alone,
                "--uplink, --mtu and faults belong to a wire: add --hosts 2"
            );
            return Ok(None);
        }
        let wire = WireConfig {
            uplink: self.uplink.unwrap_or_default(),
            mtu: self.mtu.unwrap_or(USUAL_MTU),
            faults,
        };
        wire.check()?;
        Ok(Some(wire))
    }
}

impl Faults {
    fn text(&self) -> String {
        let given = [
            ("loss", &self.loss),
            ("delay", &self.delay),
            ("reorder", &self.reorder),
            ("duplicate", &self.duplicate),
            ("corrupt", &self.corrupt),
            ("seed", &self.seed),
        ];
        let words = given
            .iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
        words.collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        wire: WireArguments,
    }

    fn wire(line: &str) -> Result<Option<WireConfig>> {
        let words = ["program"].into_iter().chain(line.split_whitespace());
        Program::try_parse_from(words)?.wire.wire()
    }

    #[test]
    fn faults_become_the_daemons_words() {
        let wire = wire("--hosts 2 --uplink tunnel --loss 1% --delay 1ms").unwrap();
        let wire = wire.unwrap();
        assert_eq!((wire.uplink, wire.mtu), (Uplink::Tunnel, USUAL_MTU));
        assert_eq!(wire.faults, "loss=1%,delay=1ms");
    }

    #[test]
    fn one_host_has_no_wire() {
        assert_eq!(wire("").unwrap(), None);
        assert!(wire("--loss 1%").is_err());
        assert!(wire("--hosts 2 --mtu 100").is_err());
        assert!(wire("--hosts 3").is_err());
    }
}
