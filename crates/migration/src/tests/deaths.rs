//! Migrations during which a program dies.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::fakes::{Fault, Stage};
use super::{Error, Migration, Phase, Progress, aborted, migrate, take_back};

/// Runs a migration whose orchestrator dies as that phase begins: its sockets close, and nothing is taken back.
pub(super) fn die_in(stage: &Stage, phase: Phase) {
    let migration = Migration::prepare(stage.options()).unwrap();
    let mut watcher = |progress: &Progress| {
        if *progress == Progress::Phase(phase) {
            resume_unwind(Box::new(phase));
        }
    };
    let died = catch_unwind(AssertUnwindSafe(|| migration.run(&mut watcher)));
    assert!(died.is_err());
}

#[test]
fn what_an_orchestrator_left_is_taken_back() {
    let phases = [
        Phase::Track,
        Phase::Copy,
        Phase::Freeze,
        Phase::HandOver,
        Phase::SwitchOver,
        Phase::Configure,
        Phase::Restore,
        Phase::Release,
    ];
    for phase in phases {
        let stage = Stage::with(Fault::None);
        die_in(&stage, phase);
        take_back(&stage).unwrap();
        assert!(stage.source_runs(), "{phase}: {:?}", stage.log());
        let changes = stage.changes();
        assert!(changes.contains(&"destination DELETE context".to_owned()));
        take_back(&stage).unwrap();
        assert!(stage.source_runs(), "{phase}, twice");
        // Nothing is left over that would disturb the next migration.
        migrate(&stage).unwrap();
    }
}

#[test]
fn nothing_is_taken_back_after_the_release() {
    let stage = Stage::with(Fault::None);
    die_in(&stage, Phase::Activate);
    let before = stage.changes();
    let error = take_back(&stage).unwrap_err();
    assert!(matches!(error, Error::Unfit(_)), "{error}");
    assert!(error.to_string().contains("has given the adapter vm1 up"));
    assert_eq!(stage.changes(), before);
}

#[test]
fn what_cannot_be_taken_back_is_told() {
    let stage = Stage::with(Fault::Refuses("source POST thaw"));
    die_in(&stage, Phase::HandOver);
    let error = take_back(&stage).unwrap_err();
    assert!(matches!(error, Error::Unrecovered { .. }), "{error}");
    assert!(error.to_string().contains("no such luck"), "{error}");
}

#[test]
fn a_destination_daemon_that_ends_is_found_while_the_vm_runs() {
    let told = aborted(Fault::DaemonEndsInCopy, Phase::Copy);
    assert!(told.contains("at the destination"), "{told}");
}

/// The destination's daemon was restarted, for example, and the context is lost.
#[test]
fn a_destination_that_could_not_go_on_is_found_before_the_release() {
    let told = aborted(Fault::Refuses("destination GET context"), Phase::Release);
    assert!(told.contains("at the destination: no such luck"), "{told}");
}
