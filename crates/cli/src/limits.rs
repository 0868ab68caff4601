//! Limits, as users write them and as they are printed.

use vrdma_api::{Limits, LimitsChange, OpsRate, Rate, Throttled};

use crate::arguments::{LimitChanges, LimitOptions};

impl LimitOptions {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            limit_out: self.limit_out,
            limit_in: self.limit_in,
            limit_out_ops: self.limit_out_ops,
            limit_in_ops: self.limit_in_ops,
            guarantee_out: self.guarantee_out,
            guarantee_in: self.guarantee_in,
            guarantee_out_ops: self.guarantee_out_ops,
            guarantee_in_ops: self.guarantee_in_ops,
        }
    }
}

impl LimitChanges {
    pub(crate) fn change(&self) -> LimitsChange {
        LimitsChange {
            limit_out: self.limit_out.map(|limit| limit.0),
            limit_in: self.limit_in.map(|limit| limit.0),
            limit_out_ops: self.limit_out_ops.map(|limit| limit.0),
            limit_in_ops: self.limit_in_ops.map(|limit| limit.0),
            guarantee_out: self.guarantee_out.map(|rate| rate.0),
            guarantee_in: self.guarantee_in.map(|rate| rate.0),
            guarantee_out_ops: self.guarantee_out_ops.map(|rate| rate.0),
            guarantee_in_ops: self.guarantee_in_ops.map(|rate| rate.0),
        }
    }
}

/// Describes what a change has done, as ends of sentences.
pub(crate) fn told(change: &LimitsChange) -> Vec<String> {
    let bits = [("sends", change.limit_out), ("receives", change.limit_in)];
    let ops = [
        ("sends", change.limit_out_ops),
        ("receives", change.limit_in_ops),
    ];
    let bits = bits.into_iter().filter_map(|(verb, rate)| {
        let rate = rate?.map_or("what it can".to_owned(), |rate| rate.to_string());
        Some(format!("{verb} at most {rate}"))
    });
    let ops = ops.into_iter().filter_map(|(verb, rate)| {
        Some(match rate? {
            Some(rate) => format!("{verb} at most {rate} messages a second"),
            None => format!("{verb} as many messages as it can"),
        })
    });
    bits.chain(ops).chain(guarantees(change)).collect()
}

fn guarantees(change: &LimitsChange) -> impl Iterator<Item = String> {
    let bits = [
        ("sends", change.guarantee_out),
        ("receives", change.guarantee_in),
    ];
    let ops = [
        ("sends", change.guarantee_out_ops),
        ("receives", change.guarantee_in_ops),
    ];
    let bits = bits.into_iter().filter_map(|(verb, rate)| {
        Some(match rate? {
            Some(rate) => format!("{verb} {rate} whatever others do"),
            None => format!("{verb} what others leave"),
        })
    });
    let ops = ops.into_iter().filter_map(|(verb, rate)| {
        Some(match rate? {
            Some(rate) => format!("{verb} {rate} messages a second whatever others do"),
            None => format!("{verb} the messages that others leave"),
        })
    });
    bits.chain(ops)
}

/// The limits that are set, as rows.
pub(crate) fn rows(limits: &Limits) -> Vec<(&'static str, String)> {
    let bits = |rate: Option<Rate>| rate.map(|rate| rate.to_string());
    let ops = |rate: Option<OpsRate>| rate.map(|rate| rate.to_string());
    let rates = [
        ("limit out", bits(limits.limit_out)),
        ("limit in", bits(limits.limit_in)),
        ("limit out ops", ops(limits.limit_out_ops)),
        ("limit in ops", ops(limits.limit_in_ops)),
        ("guarantee out", bits(limits.guarantee_out)),
        ("guarantee in", bits(limits.guarantee_in)),
        ("guarantee out ops", ops(limits.guarantee_out_ops)),
        ("guarantee in ops", ops(limits.guarantee_in_ops)),
    ];
    let set = rates.into_iter();
    set.filter_map(|(name, rate)| Some((name, rate?))).collect()
}

/// How often and how long limits delayed each direction, as rows; a direction without delays has none.
pub(crate) fn waits(out: &Throttled, inward: &Throttled) -> Vec<(&'static str, String)> {
    let directions = [("throttled", out), ("throttled in", inward)].into_iter();
    let some = directions.filter(|(_, throttled)| throttled.times > 0);
    some.map(|(name, Throttled { times, us })| (name, format!("{times} times, {} ms", us / 1000)))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use vrdma_api::{AdapterChange, PortGroupChange};

    use super::*;
    use crate::arguments::{AdapterCommand, Arguments, Command, PortgroupCommand};

    fn parsed(line: &str) -> Result<Command, clap::Error> {
        let words = line.split_whitespace();
        Arguments::try_parse_from(words).map(|arguments| arguments.command)
    }

    fn change(line: &str) -> LimitsChange {
        match parsed(line).unwrap() {
            Command::Adapter(AdapterCommand::Set { limits, .. }) => limits.change(),
            Command::Portgroup(PortgroupCommand::Set { limits, .. }) => limits.change(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_option_changes_what_it_names() {
        let of_adapter = change("vrdma adapter set vm1 --limit-in-ops 100k --limit-out 1gbit");
        let request = AdapterChange {
            limits: of_adapter,
            weight: "3".parse().ok(),
            ..AdapterChange::default()
        };
        let json = r#"{"limit_out":"1gbit","limit_in_ops":"100k","weight":3}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), json);
        let limits = change(
            "vrdma portgroup set blue --limit-in 2gbit --limit-out none --guarantee-out none",
        );
        let json = r#"{"limit_out":null,"limit_in":"2gbit","guarantee_out":null,"weight":7}"#;
        let weight = "7".parse().ok();
        let request = serde_json::to_string(&PortGroupChange { limits, weight });
        assert_eq!(request.unwrap(), json);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, sentence) in [
            ("vrdma adapter set vm1 --weight 0", "0 is not a weight"),
            (
                "vrdma adapter set vm1 --limit-in 1kbit",
                "1kbit is too little",
            ),
            (
                "vrdma portgroup set blue --limit-out-ops 5",
                "5 messages a second are too few",
            ),
            (
                "vrdma adapter set vm1 --guarantee-out 1kbit",
                "1kbit is too little",
            ),
            ("vrdma portgroup set blue", "required"),
            (
                "vrdma portgroup set blue --weight 101",
                "101 is not a weight: use a whole number from 1 to 100",
            ),
            ("vrdma portgroup add blue --weight 0", "0 is not a weight"),
        ] {
            let error = parsed(line).unwrap_err().to_string();
            assert!(error.contains(sentence), "{error}");
        }
    }

    #[test]
    fn a_change_is_told() {
        let change = change(
            "vrdma adapter set vm1 --limit-out 500mbit --limit-in none --limit-in-ops 5k --limit-out-ops none --guarantee-out 300mbit \
             --guarantee-in none --guarantee-in-ops 3k --guarantee-out-ops none",
        );
        let told = told(&change).join(" and ");
        let expected = "sends at most 500mbit and receives at most what it can and sends as many messages as it can \
            and receives at most 5k messages a second and sends 300mbit whatever others do and receives what others leave \
            and sends the messages that others leave and receives 3k messages a second whatever others do";
        assert_eq!(told, expected);
    }
}
