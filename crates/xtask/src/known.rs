//! Rows that are known to fail, and why: they are run and told, and do not fail the run. One that passes is
//! told too, as mended: it belongs on the list no longer.

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

#[cfg(test)]
mod tests {
    use super::*;

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
