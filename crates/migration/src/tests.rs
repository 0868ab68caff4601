//! Two fake daemons and two fake QEMUs in one process.

mod deaths;
mod fakes;
mod handing_over;
mod post_copy;
mod relays;
mod several;
mod snapshots;

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::pci::Address;
use fakes::{Fault, Stage};

/// Runs a migration, and returns its result.
fn migrate(stage: &Stage) -> Result<Report, Error> {
    Migration::prepare(stage.options())?.run(&mut |_: &Progress| ())
}

/// Recovers as `vrdma migrate --recover` does.
fn take_back(stage: &Stage) -> Result<Recovered, Error> {
    recover(&stage.options(), &mut |_: &Progress| ())
}

/// Returns the sentence that a fault in a phase leads to, after which VM and adapter are as before at the source.
#[track_caller]
fn aborted(fault: Fault, expected: Phase) -> String {
    let stage = Stage::with(fault);
    let error = migrate(&stage).unwrap_err();
    let Error::Aborted { phase, left, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((*phase, left.len()), (expected, 0), "{error}");
    assert!(stage.source_runs(), "{:?}", stage.log());
    assert!(!stage.log().iter().any(|line| line.ends_with("quit")));
    assert_eq!(stage.restored(), None, "nobody is to go on with it");
    let changed = |line: &&str| !line.contains("query-");
    let log = stage.log();
    let after: Vec<_> = log.iter().map(String::as_str).filter(changed).collect();
    assert!(after.contains(&"source POST thaw"), "{after:?}");
    error.to_string()
}

/// Returns the phase that failed after the source had given the adapter up, or perhaps had.
#[track_caller]
fn released_in(error: &Error) -> Phase {
    match error {
        Error::Released { phase, .. } => *phase,
        _ => panic!("{error}"),
    }
}

/// Returns all steps that change something, in order.
fn steps() -> Vec<String> {
    let replay = crate::pci::tests::config_space();
    let replay = crate::pci::ConfigSpace::from_bytes(&replay).unwrap();
    let address = Address {
        bus: 0,
        slot: 5,
        function: 1,
    };
    let replay = replay.replay(address);
    let replay = replay.iter().map(|write| format!("destination {write}"));
    let mut expected: Vec<String> = [
        "source POST track",
        "source migrate-set-capabilities true",
        "source migrate-set-parameters",
        "destination migrate-set-capabilities true",
        "destination migrate-set-parameters",
        "destination i/w 0xcf8",
        "destination o/w 0xcf8 0x80002900",
        "destination i/w 0xcfc",
    ]
    .map(str::to_owned)
    .to_vec();
    expected.extend(replay);
    let rest = [
        "destination o/w 0xcf8 0x8001f800",
        "destination migrate-incoming",
        "source migrate",
        "source migrate-continue",
        "source POST freeze",
        "destination PUT context",
        "source xp /12wx 0xfebd4000",
        "destination POST restore",
        "source POST release",
        "destination POST activate",
        "destination cont",
        "source quit",
    ];
    expected.extend(rest.map(str::to_owned));
    expected
}

#[test]
fn a_vm_goes_by_steps_in_this_order() {
    let stage = Stage::with(Fault::None);
    let mut told = Vec::new();
    let migration = Migration::prepare(stage.options()).unwrap();
    assert_eq!(stage.changes(), Vec::<String>::new());
    let plan = migration.plan();
    assert_eq!(
        (&*plan.pci_addresses[0], plan.memory_bytes),
        ("00:05.1", 1 << 30)
    );
    let report = migration
        .run(&mut |progress: &Progress| told.push(progress.clone()))
        .unwrap();
    assert_eq!(stage.changes(), steps());
    assert_eq!(
        stage.restored(),
        Some(json!({ "msix_table": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] }))
    );
    assert_eq!(
        (report.pages, report.context_bytes, report.context_pages),
        (7, 3, 5)
    );
    assert_eq!(report.phases.len(), 11);
    assert_eq!(report.qemu_ms, Some(5.0));
    assert!(report.downtime_ms > 0.0 && report.downtime_ms <= report.total_ms);
    let release = told
        .iter()
        .position(|told| *told == Progress::PointOfNoReturn)
        .unwrap();
    assert_eq!(told[release - 1], Progress::Phase(Phase::Release));
    assert_eq!(told[release + 1], Progress::Phase(Phase::Activate));
}

#[test]
fn what_fails_before_the_release_is_taken_back() {
    let refused = aborted(Fault::Refuses("source POST track"), Phase::Track);
    assert!(refused.contains("at the source: no such luck"), "{refused}");
    aborted(Fault::Refuses("source POST freeze"), Phase::Freeze);
    let put = aborted(Fault::Refuses("destination PUT context"), Phase::HandOver);
    assert!(
        put.ends_with("the VM runs on at the source with its connections"),
        "{put}"
    );
    aborted(Fault::Refuses("source POST release"), Phase::Release);
    aborted(Fault::Refuses("destination migrate-incoming"), Phase::Copy);
    aborted(Fault::Refuses("source migrate-continue"), Phase::Freeze);
    let port = aborted(
        Fault::Refuses("destination o/h 0xcfe 0x8002"),
        Phase::Configure,
    );
    assert!(port.contains("o/h"), "{port}");
    aborted(Fault::Refuses("destination POST restore"), Phase::Restore);
    let reset = aborted(Fault::ResetsAfterRestore, Phase::Release);
    assert!(reset.contains("was reset"), "{reset}");
    let failed = aborted(Fault::CopyFails, Phase::Copy);
    assert!(failed.contains("broken pipe"), "{failed}");
    let ended = aborted(Fault::DestinationEnds, Phase::SwitchOver);
    assert!(ended.contains("has ended"), "{ended}");
    let other = aborted(Fault::OtherDevice, Phase::Configure);
    assert!(
        other.contains("no adapter at PCI address 00:05.1"),
        "{other}"
    );
}

/// Returns the positions of a step in the log.
fn places(stage: &Stage, step: &str) -> Vec<usize> {
    let steps = stage.changes().into_iter().enumerate();
    let found = steps.filter(|(_, it)| it == step);
    found.map(|(at, _)| at).collect()
}

/// Limit that nothing here reaches.
const LIMIT: Duration = Duration::from_secs(20);

const COMMAND: &str = "destination o/h 0xcfc 0x406";

#[test]
fn an_adapter_is_configured_before_the_vm_stops() {
    let stage = Stage::with(Fault::None);
    migrate(&stage).unwrap();
    let (configured, copied) = (places(&stage, COMMAND), places(&stage, "source migrate"));
    assert!(configured.len() == 1 && configured < copied);
}

#[test]
fn what_the_guest_configures_during_the_copy_is_configured_again() {
    let stage = Stage::with(Fault::ConfiguresAnew);
    migrate(&stage).unwrap();
    let before = places(&stage, "destination o/h 0xcfc 0x0");
    let (after, continued) = (
        places(&stage, COMMAND),
        places(&stage, "source migrate-continue"),
    );
    assert_eq!((before.len(), after.len()), (1, 1));
    assert!(before < continued && continued < after);
}

/// The adapter does not answer before QEMU has loaded the bridge.
#[test]
fn an_adapter_behind_a_bridge_is_configured_when_all_is_loaded() {
    let stage = Stage::with(Fault::BehindBridge);
    migrate(&stage).unwrap();
    let (configured, handed_over) = (
        places(&stage, COMMAND),
        places(&stage, "destination PUT context"),
    );
    assert!(configured.len() == 1 && handed_over < configured);
}

#[test]
fn memory_that_differs_is_found_before_the_release() {
    let verify = |fault| {
        let stage = Stage::with(fault);
        let mut options = stage.options();
        options.verify = true;
        let migrated = Migration::prepare(options)
            .unwrap()
            .run(&mut |_: &Progress| ());
        (stage, migrated)
    };
    let (_, migrated) = verify(Fault::None);
    assert_eq!(migrated.unwrap().verified_bytes, Some(4096));
    let (stage, migrated) = verify(Fault::LosesMemory);
    let error = migrated.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Aborted {
                phase: Phase::Verify,
                ..
            }
        ),
        "{error}"
    );
    assert!(stage.source_runs() && stage.restored().is_none());
}

#[test]
fn a_release_without_an_answer_is_taken_back_if_the_source_still_thaws() {
    aborted(Fault::Garbles("source POST release"), Phase::Release);
    let stage = Stage::with(Fault::ReleasesSilently);
    let error = migrate(&stage).unwrap_err();
    assert_eq!(released_in(&error), Phase::Release);
    assert!(error.to_string().contains("is not known"), "{error}");
    assert!(!stage.source_runs());
}

#[test]
fn what_fails_after_the_release_says_where_things_are() {
    let cases = [
        (
            "destination POST activate",
            Phase::Activate,
            "stands still in both",
        ),
        ("destination cont", Phase::Resume, "let the VM run there"),
        ("source quit", Phase::Quit, "runs at the destination"),
    ];
    for (what, expected, told) in cases {
        let stage = Stage::with(Fault::Refuses(what));
        let error = migrate(&stage).unwrap_err();
        let Error::Released { phase, state, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*phase, expected);
        assert!(state.contains(told), "{error}");
        assert!(!stage.source_runs() && !stage.log().contains(&"source POST thaw".to_owned()));
    }
}

#[test]
fn an_interrupted_copy_is_taken_back() {
    struct Impatient(bool);
    impl Watcher for Impatient {
        fn progress(&mut self, progress: &Progress) {
            self.0 |= matches!(progress, Progress::Memory(_));
        }
        fn is_interrupted(&self) -> bool {
            self.0
        }
    }
    let stage = Stage::with(Fault::CopyTakesForEver);
    let migration = Migration::prepare(stage.options()).unwrap();
    let error = migration.run(&mut Impatient(false)).unwrap_err();
    assert!(error.to_string().contains("it was interrupted"), "{error}");
    assert!(stage.source_runs());
}

/// A check that fails changes nothing, and its sentence says how to correct the problem.
#[test]
fn what_does_not_fit_is_found_before_anything_changes() {
    let cases = [
        (Fault::Version, "QEMU 10.0.0"),
        (Fault::OtherVm, "15ad:0820"),
        (Fault::OtherSlot, "at 00:06.1 at the destination"),
        (Fault::PrivateMemory, "is not shared"),
        (Fault::SmallMemory, "same size"),
        (Fault::DoesNotWait, "-S -incoming defer"),
        (
            Fault::Refuses("destination GET adapter"),
            "at the destination: no such luck",
        ),
        (Fault::OtherMac, "--mac 52:54:00:00:00:01"),
        (Fault::OfProcesses, "of kind process"),
        (Fault::ClaimedThere, "add it with --away"),
        (Fault::AwayHere, "migrate it from there"),
    ];
    for (fault, told) in cases {
        let stage = Stage::with(fault);
        let error = migrate(&stage).unwrap_err();
        assert!(matches!(error, Error::Unfit(_)), "{error}");
        assert!(error.to_string().contains(told), "{error}");
        assert_eq!(stage.changes(), Vec::<String>::new());
    }
}

#[test]
fn sockets_that_are_none_or_the_same_are_told() {
    let stage = Stage::with(Fault::None);
    let prepare = |change: &dyn Fn(&mut Options)| {
        let mut options = stage.options();
        change(&mut options);
        Migration::prepare(options).err().unwrap().to_string()
    };
    let missing = prepare(&|options| options.destination.qmp = "/nonexistent/qmp".into());
    assert!(
        missing.contains("at the destination: no QEMU listens"),
        "{missing}"
    );
    let same = prepare(&|options| options.destination.qmp = options.source.qmp.clone());
    assert!(same.contains("the same QEMU"), "{same}");
    let same = prepare(&|options| options.destination.control = options.source.control.clone());
    assert!(same.contains("the same daemon"), "{same}");
    let daemon = prepare(&|options| options.source.qmp = stage.options().source.control);
    assert!(daemon.contains("QEMU"), "{daemon}");
}

/// The other end answers nothing before it has received all commands.
#[test]
fn commands_of_a_row_do_not_wait_for_each_other() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let other = std::thread::spawn(move || {
        let mut qemu = fakes::Lines::new(theirs);
        qemu.say(
            &json!({ "QMP": { "version": { "qemu": { "major": 11, "minor": 1, "micro": 3 } } } }),
        );
        qemu.answer(json!({}));
        let asked: Vec<_> = (0..3).map(|_| qemu.next().unwrap()).collect();
        let id = |at: usize| &asked[at]["id"];
        qemu.say(&json!({ "id": id(0), "return": asked[0]["arguments"] }));
        qemu.say(&json!({ "id": id(1), "error": { "desc": "no such luck" } }));
        qemu.say(&json!({ "event": "STOP" }));
        qemu.say(&json!({ "id": id(2), "return": {} }));
        qemu.answer(json!("next"));
    });
    let mut monitor = Monitor::greet(ours, "x".as_ref(), LIMIT).unwrap();
    let row = [json!(1), json!(2), json!(3)];
    let refused = monitor.execute_each("x", &row).unwrap_err();
    assert!(refused.to_string().contains("no such luck"), "{refused}");
    assert_eq!(monitor.execute("x", json!({})).unwrap(), json!("next"));
    other.join().unwrap();
}

#[test]
fn events_wait_and_late_answers_are_nobodys() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let other = std::thread::spawn(move || {
        let mut qemu = fakes::Lines::new(theirs);
        qemu.say(
            &json!({ "QMP": { "version": { "qemu": { "major": 11, "minor": 1, "micro": 3 } } } }),
        );
        qemu.answer(json!({}));
        qemu.say(&json!({ "event": "MIGRATION_PASS", "data": { "pass": 2 } }));
        qemu.say(&json!({ "event": "OF_A_LATER_RELEASE" }));
        qemu.say(&json!({ "id": 77, "return": "late" }));
        qemu.answer(json!("mine"));
    });
    let mut monitor = Monitor::greet(ours, "x".as_ref(), LIMIT).unwrap();
    assert_eq!(monitor.version().to_string(), "11.1.3");
    assert_eq!(
        monitor.execute("query-status", json!({})).unwrap(),
        json!("mine")
    );
    let event = monitor.next_event(Duration::ZERO).unwrap().unwrap();
    assert_eq!(event.kind, qmp::EventKind::Pass(2));
    other.join().unwrap();
    let ended = monitor.next_event(Duration::from_secs(20)).unwrap_err();
    assert!(matches!(ended, qmp::QmpError::Ended { .. }));
}

#[test]
fn a_qemu_that_does_not_greet_may_still_be_starting() {
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let silent = Monitor::greet(ours, "x".as_ref(), Duration::from_millis(1)).err();
    let silent = silent.unwrap().to_string();
    assert!(
        silent.contains("still allocates the VM's memory"),
        "{silent}"
    );
}
