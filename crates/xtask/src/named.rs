//! Selects rows by their names, and lists those that are known to fail, with the reason. The latter are run and
//! reported, but do not fail the run. If one passes, that is reported too, as mended: it must be removed from the list.

use anyhow::{Result, bail};
use clap::Args;

/// A row's name and the reason.
pub(crate) type Known = (&'static str, &'static str);

/// The known reason of a row's failure.
pub(crate) fn reason(list: &[Known], name: &str) -> Option<&'static str> {
    let found = list.iter().find(|(known, _)| *known == name);
    found.map(|(_, reason)| *reason)
}

/// The word for a row's outcome.
pub(crate) fn word(passed: bool, known: Option<&str>) -> &'static str {
    match (passed, known) {
        (true, None) => "ok    ",
        (true, Some(_)) => "MENDED",
        (false, Some(_)) => "known ",
        (false, None) => "FAILED",
    }
}

/// Texts in the names of requested rows; without any, all rows are requested.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Only {
    /// Only the rows with this text in their name, or one of several
    #[arg(long = "only", value_name = "TEXT")]
    texts: Vec<String>,
}

impl Only {
    /// Selects the rows with this text.
    pub(crate) fn text(text: &str) -> Self {
        Self {
            texts: vec![text.to_owned()],
        }
    }

    /// Whether a row is selected.
    pub(crate) fn means(&self, name: &str) -> bool {
        self.texts.is_empty() || self.texts.iter().any(|text| name.contains(text.as_str()))
    }

    /// Whether all rows are selected.
    pub(crate) fn means_all(&self) -> bool {
        self.texts.is_empty()
    }

    /// Refuses a text that is in no row's name, since it is probably mistyped.
    pub(crate) fn check(&self, rows: &[impl AsRef<str>]) -> Result<()> {
        let names = || rows.iter().map(AsRef::as_ref);
        let unknown = |text: &&String| !names().any(|name| name.contains(text.as_str()));
        match self.texts.iter().find(unknown) {
            None => Ok(()),
            Some(text) if rows.is_empty() => bail!("--only {text:?} has no rows to choose from"),
            Some(text) => {
                let names: Vec<&str> = names().collect();
                bail!(
                    "no row has {text:?} in its name; the rows are: {}",
                    names.join("; ")
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_meant_by_any_text_or_by_none() {
        let some = only(&["ib_", "ping"]);
        assert!(some.means("rping") && some.means("ib_send_lat") && !some.means("udaddy"));
        assert!(only(&[]).means("udaddy"));
    }

    #[test]
    fn a_text_in_no_name_is_refused_with_the_names() {
        let rows = ["rping", "ib_send_lat"];
        assert!(only(&[]).check(&rows).is_ok() && only(&["ping", "lat"]).check(&rows).is_ok());
        let refused = only(&["ping", "host"])
            .check(&rows)
            .unwrap_err()
            .to_string();
        assert_eq!(
            refused,
            "no row has \"host\" in its name; the rows are: rping; ib_send_lat"
        );
        let rows: [&str; 0] = [];
        assert!(only(&["ping"]).check(&rows).is_err());
    }

    fn only(texts: &[&str]) -> Only {
        Only {
            texts: texts.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn only_a_known_row_is_excused() {
        let list = &[("a", "why")];
        assert_eq!(reason(list, "a"), Some("why"));
        assert_eq!(reason(list, "ab"), None);
        assert_eq!(word(false, None), "FAILED");
        assert_eq!(word(true, reason(list, "a")), "MENDED");
        assert_eq!(word(false, Some("why")), "known ");
    }
}
