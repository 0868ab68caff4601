//! Processes that listen by `rdma_cm`, as the kernel lists them (rdma-resource(8)).

use std::path::Path;
use std::process::Command;

/// The folder of the kernel's RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";

/// Processes for which the kernel has a listening identifier.
pub(super) fn listeners() -> Vec<u32> {
    if !Path::new(DEVICES).exists() {
        return Vec::new();
    }
    let shown = Command::new("rdma")
        .args(["resource", "show", "cm_id"])
        .output();
    shown.map_or_else(
        |_| Vec::new(),
        |output| parse(&String::from_utf8_lossy(&output.stdout)),
    )
}

/// Parses lines with one identifier each: words with their values.
fn parse(shown: &str) -> Vec<u32> {
    let listens = |line: &&str| value(line, "state") == Some("LISTEN");
    let process = |line: &str| value(line, "pid")?.parse().ok();
    shown.lines().filter(listens).filter_map(process).collect()
}

fn value<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let mut words = line.split_whitespace();
    words.find(|found| *found == word)?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_identifiers_of_programs_count() {
        let shown = "\
link vmw_pvrdma0 cm-idn 0 state LISTEN ps TCP pid 712 comm rping src-addr 0.0.0.0:7174
link vmw_pvrdma0 cm-idn 1 state CONNECT ps TCP pid 713 comm rping src-addr 10.10.0.1:7174
link vmw_pvrdma0 cm-idn 2 state LISTEN ps TCP comm [nvmet]
";
        assert_eq!(parse(shown), [712]);
    }
}
