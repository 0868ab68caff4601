//! Checks relative links of Markdown files: to files of the checkout, and to headings.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::{Finding, Location, Tree};

pub(super) fn findings(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in tree.files("", ".md")? {
        for link in links(&tree.read(&file)?) {
            if let Some(sentence) = judge(tree, &file, &link.to)? {
                findings.push(Finding::new(Location::line(&file, link.line), sentence));
            }
        }
    }
    Ok(findings)
}

/// A link or an image.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    to: String,
    line: usize,
}

fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            let line = text[..range.start].matches('\n').count() + 1;
            let to = dest_url.to_string();
            links.push(Link { to, line });
        }
    }
    links
}

/// Describes what is wrong with a link, if anything. Links to other places are not followed.
fn judge(tree: &Tree, file: &str, to: &str) -> Result<Option<String>> {
    if to.contains("://") || to.starts_with("mailto:") {
        return Ok(None);
    }
    let (path, heading) = to.split_once('#').unwrap_or((to, ""));
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let target = match path {
        "" => Path::new(file).to_owned(),
        _ => folder.join(path),
    };
    if !tree.root.join(&target).exists() {
        return Ok(Some(format!(
            "the link to {to} leads to no file: correct it"
        )));
    }
    let is_text = target
        .extension()
        .is_some_and(|extension| extension == "md");
    if heading.is_empty() || !is_text {
        return Ok(None);
    }
    let known = anchors(&tree.read(&target.to_string_lossy())?);
    let sentence = || format!("the link to {to} leads to no heading: correct it");
    Ok((!known.contains(heading)).then(sentence))
}

/// Headings as links name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                anchors.extend(heading.take().map(|text| slug(&text)));
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some(text) = &mut heading {
                    text.push_str(&part);
                }
            }
            _ => {}
        }
    }
    anchors
}

/// Converts a heading as forges do: lower case, blanks as dashes, other signs dropped.
fn slug(heading: &str) -> String {
    let letters = heading.trim().chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ if letter.is_alphanumeric() => Some(letter),
        _ => None,
    });
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# The *first* `part`, v1.0\n\n[a](b.md#x)\n`[no](link)`\n\n| t |\n|---|\n| ![i](p.png) |\n";

    #[test]
    fn links_and_pictures_are_found_with_their_lines() {
        let found = links(TEXT);
        let found: Vec<(&str, usize)> = found
            .iter()
            .map(|link| (link.to.as_str(), link.line))
            .collect();
        assert_eq!(found, [("b.md#x", 3), ("p.png", 8)]);
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        std::fs::write(folder.path().join("README.md"), TEXT).unwrap();
        let tree = Tree::at(folder.path().to_owned());
        let wrong = |to: &str| judge(&tree, "docs/a.md", to).unwrap().is_some();
        for right in [
            "../README.md",
            "../README.md#the-first-part-v10",
            "https://a.b/c",
            "../docs",
        ] {
            assert!(!wrong(right), "{right}");
        }
        for to in [
            "README.md",
            "../README.md#the-second-part",
            "../x/README.md",
        ] {
            assert!(wrong(to), "{to}");
        }
    }
}
