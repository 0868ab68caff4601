//! Daemons that hand the adapters' contexts over by themselves.

use super::fakes::{Fault, Stage};
use super::*;

const STEPS: [&str; 5] = ["expect", "reach", "hand-over", "freeze", "context"];

fn steps(stage: &Stage) -> Vec<String> {
    let mut log = stage.changes();
    log.retain(|line| STEPS.iter().any(|word| line.contains(word)));
    log
}

#[test]
fn contexts_go_from_daemon_to_daemon_where_both_listen() {
    let stage = Stage::with_adapters(2, Fault::DaemonsListen);
    let migration = Migration::prepare(stage.options()).unwrap();
    assert!(migration.plan().daemon_to_daemon);
    let report = migration.run(&mut |_: &Progress| ()).unwrap();
    let expected = [
        "destination POST expect",
        "source POST reach",
        "destination POST expect of the second",
        "source POST reach of the second",
        "source POST hand-over",
        "source POST hand-over of the second",
    ];
    assert_eq!(steps(&stage), expected);
    assert!(report.daemon_to_daemon);
    assert_eq!((report.context_bytes, report.context_pages), (6, 10));
}

#[test]
fn else_they_go_by_this_program() {
    let stage = Stage::with(Fault::OneDaemonListens);
    let report = migrate(&stage).unwrap();
    assert!(!report.daemon_to_daemon);
    assert_eq!(
        steps(&stage),
        ["source POST freeze", "destination PUT context"]
    );
}

#[test]
fn a_daemon_that_cannot_be_reached_is_told_before_anything_begins() {
    let stage = Stage::with(Fault::DaemonsListen);
    stage.refuses("source POST reach");
    let Err(Error::Unfit(sentence)) = Migration::prepare(stage.options()).map(drop) else {
        panic!("it is fit");
    };
    assert!(
        sentence.contains("at the source: no such luck"),
        "{sentence}"
    );
    assert_eq!(
        steps(&stage),
        ["destination POST expect", "source POST reach"]
    );
}

#[test]
fn a_context_that_does_not_get_there_leaves_the_vm_at_the_source() {
    let stage = Stage::with(Fault::DaemonsListen);
    stage.refuses("source POST hand-over");
    let error = migrate(&stage).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Aborted {
                phase: Phase::Freeze,
                ..
            }
        ),
        "{error}"
    );
    assert!(stage.source_runs(), "{:?}", stage.log());
    let log = stage.changes();
    assert!(
        log.contains(&"destination DELETE context".to_owned()),
        "{log:?}"
    );
    assert!(log.contains(&"source POST thaw".to_owned()), "{log:?}");
}
