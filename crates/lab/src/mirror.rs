//! The source of Debian packages: the host's own apt configuration, so that a private mirror or proxy that works for
//! the host works for the image too.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use anyhow::{Result, bail};

/// Overrides apt's configuration.
pub const MIRROR_VARIABLE: &str = "VRDMA_DEBIAN_MIRROR";

/// Names that a Debian archive (and no derivative's) uses for its suites.
const DEBIAN_SUITES: &[&str] = &[
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "stable",
    "oldstable",
    "testing",
    "unstable",
];

/// One archive that apt knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    uri: String,
    suites: Vec<String>,
}

/// The address of a Debian archive, as mmdebstrap takes it.
///
/// # Errors
/// When neither the variable nor apt's configuration names one.
pub fn discover() -> Result<String> {
    match env::var(MIRROR_VARIABLE) {
        Ok(mirror) if !mirror.is_empty() => Ok(mirror),
        _ => choose(&host_sources(Path::new("/etc/apt"))),
    }
}

/// The first source that holds whole Debian releases. Security archives hold only fixed packages, so they cannot make a
/// root.
fn choose(sources: &[Source]) -> Result<String> {
    match sources
        .iter()
        .find(|source| source.suites.iter().any(|suite| is_debian(suite)))
    {
        Some(source) => resolve(&source.uri),
        None => bail!(
            "apt on this host knows no Debian archive (its suites: {}): set {MIRROR_VARIABLE} to the address of a Debian mirror",
            suites_seen(sources)
        ),
    }
}

fn is_debian(suite: &str) -> bool {
    DEBIAN_SUITES.contains(&suite)
}

fn suites_seen(sources: &[Source]) -> String {
    let suites: Vec<&str> = sources
        .iter()
        .flat_map(|source| &source.suites)
        .map(String::as_str)
        .collect();
    if suites.is_empty() {
        "none".to_owned()
    } else {
        suites.join(", ")
    }
}

/// Resolves the file of mirrors that Debian's cloud images name.
fn resolve(uri: &str) -> Result<String> {
    let Some(list) = uri.strip_prefix("mirror+file:") else {
        return Ok(uri.to_owned());
    };
    let text = fs::read_to_string(list).unwrap_or_default();
    match uncommented(&text)
        .next()
        .and_then(|line| line.split_whitespace().next())
    {
        Some(first) => Ok(first.to_owned()),
        None => bail!("apt's list of mirrors {list} is empty: set {MIRROR_VARIABLE}"),
    }
}

/// Reads all sources below an apt configuration folder, one-line files first.
fn host_sources(apt: &Path) -> Vec<Source> {
    let mut paths = vec![apt.join("sources.list")];
    let parts = fs::read_dir(apt.join("sources.list.d"))
        .into_iter()
        .flatten()
        .flatten();
    let mut parts: Vec<_> = parts.map(|entry| entry.path()).collect();
    parts.sort();
    paths.extend(parts);
    paths.iter().flat_map(|path| parse_file(path)).collect()
}

fn parse_file(path: &Path) -> Vec<Source> {
    let text = fs::read_to_string(path).unwrap_or_default();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("list") => uncommented(&text).filter_map(parse_line).collect(),
        Some("sources") => parse_deb822(&text),
        _ => Vec::new(),
    }
}

fn uncommented(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| {
            line.split_once('#')
                .map_or(line, |(before, _)| before)
                .trim()
        })
        .filter(|line| !line.is_empty())
}

/// Parses `deb [ option=value ... ] uri suite component...`, as in sources.list(5).
fn parse_line(line: &str) -> Option<Source> {
    let rest = line
        .strip_prefix("deb")?
        .strip_prefix([' ', '\t'])?
        .trim_start();
    let rest = match rest.strip_prefix('[') {
        Some(options) => options.split_once(']')?.1,
        None => rest,
    };
    let mut words = rest.split_whitespace();
    let (uri, suite) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(Source {
        uri,
        suites: vec![suite],
    })
}

/// Parses stanzas of `Field: value` lines, as in the DEB822 half of sources.list(5).
fn parse_deb822(text: &str) -> Vec<Source> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines
        .split(|line| line.trim().is_empty())
        .flat_map(parse_stanza)
        .collect()
}

fn parse_stanza(lines: &[&str]) -> Vec<Source> {
    let fields = fields(lines);
    let words = |name: &str| -> Vec<String> {
        fields
            .get(name)
            .map(|value| value.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default()
    };
    let disabled = fields
        .get("enabled")
        .is_some_and(|value| value.trim() == "no");
    if disabled || !words("types").contains(&"deb".to_owned()) {
        return Vec::new();
    }
    words("uris")
        .into_iter()
        .map(|uri| Source {
            uri,
            suites: words("suites"),
        })
        .collect()
}

/// Returns the fields, names in lower case; a line that starts with a blank continues a value.
fn fields(lines: &[&str]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut current = String::new();
    for line in lines {
        if line.starts_with([' ', '\t']) {
            let value: &mut String = fields.entry(current.clone()).or_default();
            value.push_str(line);
        } else if let Some((name, value)) = line.split_once(':') {
            current = name.to_ascii_lowercase();
            fields.insert(current.clone(), value.to_owned());
        }
    }
    fields
}

#[cfg(test)]
mod tests;
