//! Rows by their names: those that were asked for, and those that are known to fail, and why. The latter are
//! run and told, and do not fail the run. One that passes is told too, as mended: it belongs on the list no
//! longer.

/// A row's name and the reason.
pub(crate) type Known = (&'static str, &'static str);

/// What is said of a row that failed.
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

/// Whether a row's name has one of the texts that were asked for; without any, all rows are meant.
pub(crate) fn is_meant(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|text| name.contains(text.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_meant_by_any_text_or_by_none() {
        let only = ["ib_".to_owned(), "ping".to_owned()];
        assert!(is_meant(&only, "rping") && is_meant(&only, "ib_send_lat"));
        assert!(!is_meant(&only, "udaddy") && is_meant(&[], "udaddy"));
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
