//! Formats numbers for the report.

use crate::samples::Samples;

/// Three digits, which is all that such a run can tell.
pub(super) fn three_digits(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        ..0.0995 => format!("{value:.4}"),
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The median, and the extremes if they differ visibly.
pub(super) fn with_spread(samples: &Samples) -> String {
    let [median, minimum, maximum] =
        [samples.median, samples.minimum, samples.maximum].map(three_digits);
    if minimum == maximum {
        return median;
    }
    format!("{median} ({minimum} to {maximum})")
}

/// Bytes in KiB or MiB.
pub(super) fn size(text: &str) -> String {
    const UNITS: [(u64, &str); 2] = [(1 << 20, "MiB"), (1 << 10, "KiB")];
    let Ok(bytes) = text.parse::<u64>() else {
        return text.to_owned();
    };
    let found = UNITS
        .iter()
        .find(|(unit, _)| bytes >= *unit && bytes % unit == 0);
    found.map_or_else(
        || format!("{bytes} B"),
        |(unit, name)| format!("{} {name}", bytes / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_shown() {
        let texts = [0.0, 0.0312, 1.2, 9.996, 12.34, 480.3, 45123.0, -2.5].map(three_digits);
        assert_eq!(
            texts,
            [
                "0", "0.0312", "1.20", "10.0", "12.3", "480", "45123", "-2.50"
            ]
        );
    }

    #[test]
    fn spread_is_shown_where_there_is_one() {
        let text = |values: &[f64]| with_spread(&Samples::of(values.to_vec()).unwrap());
        assert_eq!(text(&[2.0]), "2.00");
        assert_eq!(text(&[2.0, 1.0, 4.0]), "2.00 (1.00 to 4.00)");
    }

    #[test]
    fn sizes_are_in_the_largest_whole_unit() {
        assert_eq!(
            ["2", "1024", "1536", "8388608", "n2np40", "-"].map(size),
            ["2 B", "1 KiB", "1536 B", "8 MiB", "n2np40", "-"]
        );
    }
}
