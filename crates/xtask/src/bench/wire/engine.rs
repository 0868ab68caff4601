//! The engine without a wire: how many packets one core processes when nothing else limits it.

use anyhow::{Context, Result};
use vrdma_lab::steps::Steps;

use crate::bench::example;
use crate::bench::finding::Finding;

/// The name by which `--only` chooses it.
pub(super) const NAME: &str = "engine alone";

/// Packets a second of one core, with requester and responder on it together.
pub(super) fn findings(steps: &Steps) -> Result<Vec<Finding>> {
    let step = steps.start(NAME);
    let text = String::from_utf8(example::output("packet_rate")?)?;
    step.done();
    text.lines().map(finding).collect()
}

/// Parses a line such as `write of 8 bytes, path MTU 1024: 1.40 M frames/s, ...`.
fn finding(line: &str) -> Result<Finding> {
    let told = || format!("packet_rate printed something else than its figures: {line}");
    let (what, rest) = line.split_once(": ").with_context(told)?;
    let (millions, _) = rest.split_once(" M frames/s").with_context(told)?;
    let value: f64 = millions.parse().with_context(told)?;
    let what = format!("{NAME}, both ends on one core: {what}");
    Ok(Finding::new(what, value * 1e6, "packets/s", None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_figures_or_refused() {
        let line =
            "write of 8 bytes, path MTU 1024: 1.40 M frames/s, 0.700 M messages/s, 0.01 GB/s";
        let found = finding(line).unwrap();
        assert!(found.what.ends_with("write of 8 bytes, path MTU 1024"));
        assert!((found.value - 1.4e6).abs() < 1.0);
        assert!(finding("went back 3 times").is_err());
    }
}
