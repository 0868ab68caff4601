//! A value with the target that it is measured against.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

/// The house plan's target for a value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Target {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

/// A measured value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Finding {
    pub(super) what: String,
    pub(super) value: f64,
    pub(super) unit: String,
    /// `None` where the plan has no target.
    pub(super) target: Option<Target>,
    pub(super) met: Option<bool>,
}

impl Finding {
    pub(super) fn new(what: String, value: f64, unit: &str, target: Option<Target>) -> Self {
        let met = target.map(|target| target.is_met_by(value));
        Self {
            what,
            value,
            unit: unit.to_owned(),
            target,
            met,
        }
    }
}

impl Target {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
            Self::Below(limit) => value < limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(limit) => format!("at least {}", number(limit)),
            Self::AtMost(limit) => format!("at most {}", number(limit)),
            Self::Below(limit) => format!("below {}", number(limit)),
        }
    }
}

/// The table of findings.
pub(super) fn render(findings: &[Finding]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(UTF8_FULL_CONDENSED)
        .set_header(["what", "value", "unit", "target", "met"]);
    table.add_rows(findings.iter().map(row));
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(finding: &Finding) -> [String; 5] {
    let met = finding
        .met
        .map_or("-", |met| if met { "met" } else { "not met" });
    [
        finding.what.clone(),
        number(finding.value),
        finding.unit.clone(),
        finding.target.map_or_else(|| "-".to_owned(), Target::text),
        met.to_owned(),
    ]
}

/// Formats three digits, which is all that such a run can tell; millions with an M.
fn number(value: f64) -> String {
    match value {
        1e6.. => format!("{:.2} M", value / 1e6),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_judged_at_their_limits() {
        let met = |target, value| Finding::new(String::new(), value, "x", Some(target)).met;
        assert_eq!(met(Target::AtLeast(5.0), 5.0), Some(true));
        assert_eq!(met(Target::AtLeast(5.0), 4.99), Some(false));
        assert_eq!(met(Target::Below(1.0), 1.0), Some(false));
        assert_eq!(Finding::new(String::new(), 1.0, "x", None).met, None);
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [5_235_946.0, 4096.0, 13.21, 0.051].map(number);
        assert_eq!(texts, ["5.24 M", "4096", "13.2", "0.05"]);
    }
}
