//! Times until the next worker served.

use std::time::Duration;

/// Pauses after the end of each worker.
#[derive(Default)]
pub(super) struct Pauses(Vec<Duration>);

impl Pauses {
    pub(super) fn add(&mut self, pause: Duration) {
        self.0.push(pause);
    }

    pub(super) fn add_all(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn median(&self) -> String {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let middle = sorted.get(sorted.len() / 2).copied();
        middle.map_or(String::new(), milliseconds)
    }

    pub(super) fn worst(&self) -> String {
        let worst = self.0.iter().max().copied();
        worst.map_or(String::new(), milliseconds)
    }
}

pub(super) fn milliseconds(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}

/// The longest of all round trips that perftest prints, halved: `#bytes #iterations t_min t_max ...`, in microseconds.
pub(super) fn longest_round_trip(printed: &str) -> Option<Duration> {
    let mut lines = printed.lines().rev();
    let words = lines.find_map(|line| {
        let numbers: Option<Vec<f64>> = line.split_whitespace().map(|it| it.parse().ok()).collect();
        numbers.filter(|numbers| numbers.len() > 4)
    })?;
    Some(Duration::from_secs_f64(words[3] * 2.0 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_round_trip_is_twice_the_largest_latency() {
        let printed = " #bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec]\n \
                       64 1000 1.5 20000.25 2.0 2.1 0.1 3.0 4.0\n-----\n";
        let longest = longest_round_trip(printed).unwrap();
        assert_eq!(milliseconds(longest), "40 ms");
        assert_eq!(longest_round_trip("nothing"), None);
    }

    #[test]
    fn pauses_have_a_median_and_a_worst() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.median(), "");
        for milliseconds in [30, 10, 20] {
            pauses.add(Duration::from_millis(milliseconds));
        }
        assert_eq!(
            (pauses.median(), pauses.worst()),
            ("20 ms".into(), "30 ms".into())
        );
    }
}
