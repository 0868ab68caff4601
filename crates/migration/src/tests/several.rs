//! VMs with two adapters.

use super::fakes::{Fault, Stage};
use super::*;

/// Returns the lines of the log with one of these words, in order.
fn steps_with(stage: &Stage, words: &[&str]) -> Vec<String> {
    let mut log = stage.changes();
    log.retain(|line| words.iter().any(|word| line.contains(word)));
    log
}

#[test]
fn all_adapters_stand_still_before_the_first_goes_on() {
    let stage = Stage::with_adapters(2, Fault::None);
    let report = migrate(&stage).unwrap();
    let steps = steps_with(
        &stage,
        &["POST", "PUT", "cont", "xp", "80002900", "80003100"],
    );
    let expected = [
        "source POST track",
        "source POST track of the second",
        // The first adapter is in the second slot.
        "destination o/w 0xcf8 0x80003100",
        "destination o/w 0xcf8 0x80002900",
        "source migrate-continue",
        "source POST freeze",
        "source POST freeze of the second",
        "destination PUT context",
        "source xp /12wx 0xfebd4000",
        "destination PUT context of the second",
        "source xp /12wx 0xfebc4000",
        "destination POST restore",
        "destination POST restore of the second",
        "source POST release",
        "source POST release of the second",
        "destination POST activate",
        "destination POST activate of the second",
        "destination cont",
    ];
    assert_eq!(steps, expected);
    assert_eq!((report.context_bytes, report.context_pages), (6, 10));
}

/// QEMU is told of pages once no adapter writes any more, and sends the rest after that.
#[test]
fn what_is_too_much_for_contexts_is_sent_by_qemu() {
    let stage = Stage::with_adapters(2, Fault::AdaptersWriteMuch);
    let report = migrate(&stage).unwrap();
    let steps = steps_with(&stage, &["continue", "freeze", "resend", "PUT"]);
    let expected = [
        "source POST freeze",
        "source POST freeze of the second",
        "source POST resend",
        "source POST resend of the second",
        "source migrate-continue",
        "destination PUT context",
        "destination PUT context of the second",
    ];
    assert_eq!(steps, expected);
    assert_eq!(report.resent_bytes, 18 << 20);
    let stage = Stage::with_adapters(1, Fault::AdaptersWriteMuch);
    migrate(&stage).unwrap();
    let alone = steps_with(&stage, &["resend"]);
    assert!(alone.is_empty(), "9 MiB go in a context");
}

#[test]
fn each_step_of_the_second_is_taken_back_for_both() {
    let refusals = [
        "source POST track of the second",
        "source POST freeze of the second",
        "destination PUT context of the second",
        "destination POST restore of the second",
        "destination GET context of the second",
    ];
    for refusal in refusals {
        let stage = Stage::with_adapters(2, Fault::Refuses(refusal));
        let error = migrate(&stage).unwrap_err();
        let Error::Aborted { left, .. } = &error else {
            panic!("{refusal}: {error}");
        };
        assert_eq!(left.len(), 0, "{error}");
        assert!(stage.source_runs(), "{refusal}: {:?}", stage.log());
        assert_eq!(stage.restored(), None);
        let thawed = steps_with(&stage, &["thaw"]);
        assert_eq!(
            thawed,
            ["source POST thaw", "source POST thaw of the second"]
        );
    }
}

/// The first adapter belongs to the destination already.
#[test]
fn what_is_not_released_after_the_first_does_not_hold_up_the_vm() {
    let stage = Stage::with_adapters(2, Fault::Refuses("source POST release of the second"));
    let error = migrate(&stage).unwrap_err();
    assert_eq!(released_in(&error), Phase::Release);
    let said = error.to_string();
    assert!(said.contains("the VM runs at the destination"), "{said}");
    assert!(said.contains("has not given up vm2"), "{said}");
    let end = [
        "destination POST activate",
        "destination POST activate of the second",
        "source quit",
    ];
    assert_eq!(steps_with(&stage, &["activate", "quit"]), end);
    assert!(stage.changes().contains(&"destination cont".to_owned()));
}

#[test]
fn all_adapters_are_named_and_no_others() {
    let stage = Stage::with_adapters(2, Fault::None);
    let prepare = |names: &[&str]| {
        let mut options = stage.options();
        options.adapters = names.iter().map(|name| name.parse().unwrap()).collect();
        Migration::prepare(options).err().unwrap().to_string()
    };
    let one = prepare(&["vm1"]);
    assert!(
        one.contains("has 2 adapters") && one.contains("1 were named"),
        "{one}"
    );
    assert!(prepare(&["vm2", "vm2"]).contains("vm2 is named twice"));
    assert!(prepare(&[]).contains("name the adapters"));
    assert_eq!(stage.changes(), Vec::<String>::new());
}

#[test]
fn an_orchestrator_that_died_leaves_both_to_be_taken_back() {
    let stage = Stage::with_adapters(2, Fault::None);
    deaths::die_in(&stage, Phase::Restore);
    take_back(&stage).unwrap();
    assert!(stage.source_runs(), "{:?}", stage.log());
    migrate(&stage).unwrap();
}
