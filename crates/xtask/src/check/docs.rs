//! Doc comments, private ones too, as rustdoc reads them: each of its warnings is a finding, except for public items
//! that link to private ones, which readers of the sources can follow.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{Finding, Location, Tree};
use crate::cargo;

/// The lint about links that resolve only in documentation of private items, such as this one.
const TO_PRIVATE: &str = "rustdoc::private_intra_doc_links";

/// A line of cargo's output that is a warning or an error.
#[derive(Deserialize)]
struct Line {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    message: String,
    level: String,
    code: Option<Code>,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: usize,
}

pub(super) fn findings(tree: &Tree) -> Result<Vec<Finding>> {
    let output = cargo::command()
        .current_dir(&tree.root)
        .args([
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ])
        .args(["--keep-going", "--quiet", "--message-format", "json"])
        .output()
        .context("cannot start cargo doc")?;
    let findings = read(&String::from_utf8(output.stdout)?);
    ensure!(
        output.status.success() || !findings.is_empty(),
        "cargo doc: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(findings)
}

/// Reads the findings; a file that is in several crates is reported once.
fn read(messages: &str) -> Vec<Finding> {
    let mut findings: Vec<Finding> = messages.lines().filter_map(finding).collect();
    findings.sort();
    findings.dedup();
    findings
}

fn finding(line: &str) -> Option<Finding> {
    let message = serde_json::from_str::<Line>(line).ok()?.message;
    if message.level != "warning" && message.level != "error" {
        return None;
    }
    if message.code.is_some_and(|code| code.code == TO_PRIVATE) {
        return None;
    }
    let span = message.spans.first()?;
    let place = Location::line(&span.file_name, span.line_start);
    Some(Finding::new(place, format!("rustdoc: {}", message.message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_become_findings_with_their_places() {
        let line = r#"{"reason":"compiler-message","message":{"message":"unresolved link to `X`","level":"warning","code":{"code":"rustdoc::broken_intra_doc_links"},"spans":[{"file_name":"crates/a/src/lib.rs","line_start":3}]}}"#;
        let built = r#"{"reason":"compiler-artifact","fresh":true}"#;
        let private = line.replace("broken_intra", "private_intra");
        let found = read(&format!("{line}\n{built}\n{private}\n{line}\n"));
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            ["crates/a/src/lib.rs:3: rustdoc: unresolved link to `X`"]
        );
    }
}
