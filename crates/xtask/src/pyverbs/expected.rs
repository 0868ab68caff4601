//! Expected outcomes of tests, compared with the actual ones.

use anyhow::{Context, Result, bail};

/// One line of the list.
struct Line {
    outcomes: &'static [&'static str],
    pattern: String,
    reason: String,
}

/// The list.
pub(super) struct Expected(Vec<Line>);

/// The outcome of a test.
pub(super) struct Outcome {
    kind: String,
    name: String,
    reason: String,
}

impl Outcome {
    /// The complaint about an outcome that is not of a test but of a pattern that matches none.
    pub(super) fn unknown(&self) -> Option<String> {
        let sentence = || format!("no test matches {:?}; {}", self.name, self.reason);
        (self.kind == "unknown").then(sentence)
    }

    /// Reads the runner's report: a kind, a name and a reason a line.
    pub(super) fn read(report: &str) -> Vec<Self> {
        let line = |line: &str| {
            let mut words = line.splitn(3, ' ');
            Some(Self {
                kind: words.next()?.to_owned(),
                name: words.next()?.to_owned(),
                reason: words.next().unwrap_or_default().to_owned(),
            })
        };
        report.lines().filter_map(line).collect()
    }
}

/// Whether a name matches a pattern with shell-style `*`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(tail, &rest[at..]))
        }),
    }
}

impl Expected {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut lines = Vec::new();
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if !line.is_empty() && !line.starts_with('#') {
                lines.push(
                    Line::parse(line)
                        .with_context(|| format!("line {number} of the expected outcomes"))?,
                );
            }
        }
        Ok(Self(lines))
    }

    /// Describes differences; lines that match no test count only when all tests ran.
    pub(super) fn compare(&self, outcomes: &[Outcome], all: bool) -> Vec<String> {
        let mut used = vec![false; self.0.len()];
        let mut findings = Vec::new();
        for outcome in outcomes.iter().filter(|outcome| outcome.kind != "ok") {
            let fits = |line: &Line| {
                line.outcomes.contains(&outcome.kind.as_str())
                    && matches(&line.pattern, &outcome.name)
            };
            match self.0.iter().position(fits) {
                Some(index) => used[index] = true,
                None => findings.push(format!(
                    "{}: {}: {}",
                    outcome.kind, outcome.name, outcome.reason
                )),
            }
        }
        let stale = self
            .0
            .iter()
            .zip(&used)
            .filter(|(line, used)| all && !**used && line.outcomes.len() == 1);
        findings.extend(
            stale.map(|(line, _)| format!("happens no longer: {} ({})", line.pattern, line.reason)),
        );
        findings
    }
}

impl Line {
    fn parse(line: &str) -> Result<Self> {
        let mut words = line.splitn(3, char::is_whitespace);
        let outcomes: &[&str] = match words.next() {
            Some("skip") => &["skip"],
            Some("fail") => &["fail"],
            Some("either") => &["skip", "fail"],
            _ => bail!("begins with neither skip nor fail nor either: {line}"),
        };
        let pattern = words.next().context("no pattern")?.to_owned();
        let reason = words
            .next()
            .map(str::trim)
            .filter(|reason| !reason.is_empty());
        Ok(Self {
            outcomes,
            pattern,
            reason: reason.context("no reason")?.to_owned(),
        })
    }
}

/// Counts outcomes of each kind.
pub(super) fn summary(outcomes: &[Outcome]) -> String {
    let count = |kind| {
        outcomes
            .iter()
            .filter(|outcome| outcome.kind == kind)
            .count()
    };
    format!(
        "{} tests: {} passed, {} skipped, {} failed",
        outcomes.len(),
        count("ok"),
        count("skip"),
        count("fail")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_expected_and_nothing_else() {
        let expected =
            Expected::parse("# head\n\nskip a.*.x  not there\nfail b  broken\n").unwrap();
        let report = "ok a.1.y\nskip a.1.x because\nfail b it broke\nskip b why\nfail c it broke";
        let findings = expected.compare(&Outcome::read(report), true);
        assert_eq!(findings, ["skip: b: why", "fail: c: it broke"]);
    }

    #[test]
    fn a_pattern_without_a_test_is_told_with_the_modules() {
        let outcomes = Outcome::read("unknown test_x.* the modules are: test_cq; test_mr");
        assert_eq!(
            outcomes[0].unknown().unwrap(),
            "no test matches \"test_x.*\"; the modules are: test_cq; test_mr"
        );
        assert_eq!(Outcome::read("ok a.b")[0].unknown(), None);
    }

    #[test]
    fn a_line_that_happens_no_longer_is_found_when_all_tests_ran() {
        let expected = Expected::parse("skip a  reason\neither b  at random").unwrap();
        assert_eq!(
            expected.compare(&[], true),
            ["happens no longer: a (reason)"]
        );
        assert!(expected.compare(&[], false).is_empty());
        assert!(Expected::parse("skip a").is_err(), "a reason is due");
    }
}
