//! Programs that others wrote and that this project does not use itself.

use super::origin::Origin;

/// Which root a row needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Home {
    /// Of packages only.
    Packaged,
}

/// A program, what is done with it, and how one knows that it got the right data.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) origin: Origin,
    pub(super) home: Home,
    /// Whether it is one of the few that need no more than the packages.
    pub(super) is_short: bool,
    /// For the reader of the page.
    pub(super) does: &'static str,
    /// For the reader of the page.
    pub(super) checked: &'static str,
    /// May be empty.
    pub(super) server: &'static str,
    pub(super) client: &'static str,
    pub(super) expect: &'static [&'static str],
}

pub(super) const ROWS: &[Row] = &[Row {
    name: "tgt iSER target, libiscsi",
    origin: Origin::Debian("tgt"),
    home: Home::Packaged,
    is_short: true,
    does: "tgtd serves a disk over iSER; iscsi-test-cu writes and reads, iscsi-perf reads for two seconds",
    checked: "by iscsi-test-cu, block by block",
    server: include_str!("tgt.sh"),
    client: include_str!("libiscsi.sh"),
    expect: &[
        "768    768    768      0",
        "512    512    512      0",
        "finished.",
    ],
}];

/// Rows that are run.
pub(super) fn rows(short: bool) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.is_short || !short)
}
