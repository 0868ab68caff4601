//! Memory that follows the VM.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use serde_json::json;

use super::fakes::{Fault, Stage};
use super::{released_in, take_back};
use crate::{Error, Migration, Phase, Progress, Recovered, Report};

fn migrate(stage: &Stage, watcher: &mut dyn FnMut(&Progress)) -> Result<Report, Error> {
    let mut options = stage.options();
    options.memory.post_copy = true;
    Migration::prepare(options)?.run(&mut |progress: &Progress| watcher(progress))
}

/// Returns the steps from the end of the first pass on.
fn steps(stage: &Stage) -> Vec<String> {
    let changes = stage.changes();
    let first = changes
        .iter()
        .position(|line| line == "source migrate")
        .unwrap();
    changes[first + 1..].to_vec()
}

#[test]
fn the_vm_runs_before_its_memory_is_there_and_its_adapter_after() {
    let stage = Stage::with(Fault::WritesMuch);
    let mut told = Vec::new();
    let report = migrate(&stage, &mut |progress| told.push(progress.clone())).unwrap();
    let expected = [
        "source migrate-start-postcopy",
        "source POST freeze",
        "destination PUT context",
        "source xp /12wx 0xfebd4000",
        "source migrate-continue",
        "destination POST restore",
        "destination cont",
        "source POST release",
        "destination POST activate",
        "source quit",
    ];
    assert_eq!(steps(&stage), expected);
    let table: Vec<u32> = (1..=12).collect();
    let restored = json!({ "msix_table": table, "memory_follows": true });
    assert_eq!(stage.restored(), Some(restored));
    let phases: Vec<_> = report.phases.iter().map(|it| it.phase).collect();
    assert!(phases.ends_with(&[
        Phase::Restore,
        Phase::Resume,
        Phase::PageIn,
        Phase::Release,
        Phase::Activate,
        Phase::Quit
    ]));
    let at = |what: Progress| told.iter().position(|told| *told == what).unwrap();
    assert!(at(Progress::PointOfNoReturn) < at(Progress::Phase(Phase::Restore)));
}

#[test]
fn a_vm_that_writes_little_goes_as_a_whole() {
    let stage = Stage::with(Fault::None);
    migrate(&stage, &mut |_| ()).unwrap();
    let steps = steps(&stage);
    let at = |what: &str| steps.iter().position(|step| step == what).unwrap();
    assert!(at("destination PUT context") < at("source migrate-continue"));
    assert!(at("source POST release") < at("destination POST activate"));
    assert!(at("destination POST activate") < at("destination cont"));
}

#[test]
fn what_fails_before_the_devices_go_is_taken_back() {
    for refused in ["destination PUT context", "source migrate-continue"] {
        let stage = Stage::with(Fault::Refuses(refused));
        let error = migrate(&stage, &mut |_| ()).unwrap_err();
        assert!(matches!(error, Error::Aborted { .. }), "{error}");
        assert!(stage.source_runs(), "{refused}");
    }
}

#[test]
fn what_fails_after_it_is_told_with_where_the_vm_is() {
    let stage = Stage::with(Fault::BreaksInPageIn);
    let error = migrate(&stage, &mut |_| ()).unwrap_err();
    assert_eq!(released_in(&error), Phase::PageIn);
    let said = error.to_string();
    assert!(said.contains("postcopy-paused"), "{said}");
    assert!(said.contains("the VM runs at the destination"), "{said}");
    assert!(!steps(&stage).contains(&"source POST release".to_owned()));
}

#[test]
fn a_vm_that_has_gone_is_not_taken_back_and_its_migration_ends() {
    for (phase, left) in [
        (Phase::Resume, &["destination cont"][..]),
        (Phase::PageIn, &[]),
    ] {
        let stage = dies_in(phase, 1);
        let before = stage.changes().len();
        assert_eq!(take_back(&stage), Ok(Recovered::AtDestination));
        let rest = [
            "source POST release",
            "destination POST activate",
            "source quit",
        ];
        assert_eq!(stage.changes()[before..], [left, &rest].concat());
    }
}

#[test]
fn a_vm_that_waits_for_its_memory_is_left_where_it_is() {
    let stage = Stage::with(Fault::BreaksInPageIn);
    migrate(&stage, &mut |_| ()).unwrap_err();
    let before = stage.changes();
    let error = take_back(&stage).unwrap_err();
    assert_eq!(released_in(&error), Phase::PageIn);
    assert_eq!(stage.changes(), before);
}

/// Runs a migration with this number of adapters, whose orchestrator dies in a phase.
fn dies_in(phase: Phase, adapters: usize) -> Stage {
    let stage = Stage::with_adapters(adapters, Fault::WritesMuch);
    let mut dies = |progress: &Progress| {
        if *progress == Progress::Phase(phase) {
            resume_unwind(Box::new(phase));
        }
    };
    let died = catch_unwind(AssertUnwindSafe(|| migrate(&stage, &mut dies)));
    assert!(died.is_err());
    stage
}

#[test]
fn adapters_that_were_not_restored_are_before_the_vm_runs() {
    let stage = dies_in(Phase::Restore, 2);
    let before = stage.changes().len();
    assert_eq!(take_back(&stage), Ok(Recovered::AtDestination));
    let changes = stage.changes();
    let mut rest = changes[before..].to_vec();
    rest.retain(|line| !line.contains(" o/") && !line.contains(" i/"));
    let expected = [
        "source xp /12wx 0xfebd4000",
        "source xp /12wx 0xfebc4000",
        "destination POST restore",
        "destination POST restore of the second",
        "destination cont",
        "source POST release",
        "source POST release of the second",
        "destination POST activate",
        "destination POST activate of the second",
        "source quit",
    ];
    assert_eq!(rest, expected);
    let replays = changes[before..].iter().filter(|line| line.contains(" o/"));
    assert!(replays.count() > 2, "the adapters are configured");
}

#[test]
fn one_whose_adapter_cannot_be_restored_is_told_so() {
    let stage = dies_in(Phase::Restore, 1);
    stage.refuses("destination GET context");
    let refused = take_back(&stage).unwrap_err().to_string();
    assert!(refused.contains("cannot go on there"), "{refused}");
}

#[test]
fn huge_pages_are_refused() {
    let stage = Stage::with(Fault::HugePages);
    let refused = migrate(&stage, &mut |_| ()).unwrap_err().to_string();
    assert!(
        refused.contains("memory vrdma-memory is of huge pages"),
        "{refused}"
    );
    assert_eq!(stage.changes(), Vec::<String>::new());
}

#[test]
fn it_goes_by_one_stream_that_is_not_qemus_rdma() {
    let stage = Stage::with(Fault::None);
    for (uri, channels) in [
        ("rdma:192.0.2.1:4444", None),
        ("tcp:192.0.2.1:4444", Some(2)),
    ] {
        let mut options = stage.options();
        options.memory.uri = uri.to_owned();
        options.memory.channels = channels;
        options.memory.post_copy = true;
        let refused = Migration::prepare(options).err().unwrap().to_string();
        assert!(refused.contains("post-copy goes by tcp:"), "{refused}");
    }
    assert_eq!(stage.changes(), Vec::<String>::new());
}
