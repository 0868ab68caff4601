use super::running::{Figures, Told};
use super::totals::{Total, Totals};
use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn a_target_that_is_not_there_is_refused_with_the_names() {
    let all = names(&["switch", "wire"]);
    assert_eq!(chosen(&all, &[]).unwrap(), all);
    assert_eq!(chosen(&all, &names(&["wire"])).unwrap(), names(&["wire"]));
    let refused = chosen(&all, &names(&["wire", "wired"])).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "there is no target \"wired\"; the targets are: switch, wire"
    );
}

#[test]
fn the_time_is_shared_by_jobs() {
    let second = Duration::from_secs(1);
    assert_eq!(share(90 * second, 18, 2), 10 * second);
    assert_eq!(share(2 * second, 18, 2), second);
}

#[test]
fn the_words_of_libfuzzer_are_understood() {
    let mut told = Told::default();
    told.take("INFO: Seed: 7");
    told.take("#4096\tpulse  cov: 64 ft: 90 corp: 12/30b lim: 4 exec/s: 2 rss: 30Mb");
    assert_eq!((told.executions, told.corpus), (4096, 12));
    told.take("stat::number_of_executed_units: 5000");
    assert_eq!((told.executions, told.corpus), (5000, 12));
}

fn figures(target: &str, executions: u64) -> Figures {
    Figures {
        target: target.to_owned(),
        executions,
        per_second: 7,
        corpus: 3,
        found: Vec::new(),
        program: Default::default(),
    }
}

#[test]
fn the_table_has_the_sum() {
    let rows = [figures("switch", 40), figures("wire", 2)];
    let table = report::table(&rows, &totals(&[("wire", 1000)])).to_string();
    let last = table
        .lines()
        .rev()
        .find(|line| line.contains("all"))
        .unwrap();
    for sum in ["42", "14", "1000"] {
        assert!(last.contains(sum), "{table}");
    }
}

fn totals(of: &[(&str, u64)]) -> Totals {
    let total = |&(name, executions): &(&str, u64)| {
        let total = Total {
            executions,
            crashes: 0,
        };
        (name.to_owned(), total)
    };
    of.iter().map(total).collect()
}

#[test]
fn runs_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let tally = Tally::within(folder.path());
    assert_eq!(tally.read().unwrap(), totals(&[]));
    for (target, executions) in [("wire", 7), ("switch", 1), ("wire", 3_000_000_000)] {
        tally.add(&figures(target, executions)).unwrap();
    }
    let expected = totals(&[("switch", 1), ("wire", 3_000_000_007)]);
    assert_eq!(tally.read().unwrap(), expected);
}

#[test]
fn each_target_of_the_tree_has_a_corpus() {
    let folders = Folders::of_this_program().unwrap();
    let targets = folders.targets().unwrap();
    assert!(targets.contains(&"wire".to_owned()));
    for target in targets {
        let kept = folders::files(&folders.corpus(&target)).unwrap();
        assert!(
            !kept.is_empty(),
            "{target}: cargo xtask fuzz --target {target} --keep"
        );
    }
}
