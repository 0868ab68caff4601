//! Bodies of commits: the reason, and how it was checked. Without a history, nothing is reported.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Finding, Location, Tree};

/// The last commit before bodies were checked.
const BEFORE: &str = "07cf7dc7e024";

pub(super) fn findings(tree: &Tree) -> Result<Vec<Finding>> {
    if git(tree, &["merge-base", "--is-ancestor", BEFORE, "HEAD"]).is_err() {
        println!("commits: the history back to {BEFORE} is not here, so none is checked");
        return Ok(Vec::new());
    }
    let release = git(tree, &["describe", "--tags", "--abbrev=0", "--match", "v*"]);
    let from = release.unwrap_or_else(|_| BEFORE.to_owned());
    let range = format!("{}..HEAD", from.trim());
    let format = "--format=%h%x00%s%x00%b%x01";
    let log = git(tree, &["log", "--no-merges", format, &range])?;
    Ok(log.split('\u{1}').filter_map(judge).collect())
}

/// Judges a commit, given as hash, subject and body.
fn judge(commit: &str) -> Option<Finding> {
    let mut parts = commit.trim_start().splitn(3, '\0');
    let (hash, subject, body) = (parts.next()?, parts.next()?, parts.next()?);
    let is_trailer = |line: &str| {
        let key = line.split_once(": ").map(|(key, _)| key);
        key.is_some_and(|key| key.ends_with("-by"))
    };
    let says_something = |line: &str| !line.trim().is_empty() && !is_trailer(line);
    if body.lines().any(says_something) {
        return None;
    }
    let sentence = format!("{subject:?} has no body: say why, and how it was checked");
    Some(Finding::new(
        Location::file(format!("commit {hash}")),
        sentence,
    ))
}

fn git(tree: &Tree, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(&tree.root)
        .args(arguments)
        .output()
        .context("cannot start git")?;
    ensure!(
        output.status.success(),
        "git {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_says_something_besides_names() {
        assert_eq!(judge("1a2b\0wire: faster\0Since it was slow.\n"), None);
        assert_eq!(judge("\n"), None);
        for body in ["", "\n", "Signed-off-by: A <a@b>\n"] {
            let finding = judge(&format!("\n1a2b\0wire: faster\0{body}")).unwrap();
            assert_eq!(
                finding.to_string(),
                "commit 1a2b: \"wire: faster\" has no body: say why, and how it was checked"
            );
        }
    }
}
