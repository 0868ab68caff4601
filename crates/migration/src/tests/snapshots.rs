//! Saving and restoring snapshots of a VM.

use std::fs;

use serde_json::json;

use super::fakes::{Fault, Stage};
use crate::progress::{Progress, Watcher};
use crate::snapshot::{Options, Saved, SnapshotError, restore, save, save_by};

fn nobody(_: &Progress) {}

fn saved() -> Stage {
    let stage = Stage::alone(Fault::None);
    save(&stage.snapshot("source"), &mut nobody).unwrap();
    stage
}

fn not_saved(fault: Fault) -> String {
    taken_back(fault, save)
}

/// Returns the sentence that a fault leads to, after which nothing is left behind.
#[track_caller]
fn taken_back(
    fault: Fault,
    save: fn(&Options, &mut dyn Watcher) -> Result<Saved, SnapshotError>,
) -> String {
    let stage = Stage::alone(fault);
    let options = stage.snapshot("source");
    for file in [&options.file, &options.memory] {
        fs::write(file, "of before").unwrap();
    }
    let error = save(&options, &mut nobody).unwrap_err();
    let log = stage.log();
    assert!(
        matches!(error, SnapshotError::NotSaved { left: None, .. }),
        "{error}"
    );
    let last = log.iter().rfind(|line| !line.contains("query"));
    assert_eq!(last.unwrap(), "source POST thaw", "{log:?}");
    assert_eq!(stage.files(), ["vm1.adapter", "vm1.memory"]);
    for file in [&options.file, &options.memory] {
        assert_eq!(fs::read(file).unwrap(), b"of before");
    }
    error.to_string()
}

#[test]
fn a_vm_becomes_two_files_and_comes_from_them() {
    let stage = Stage::alone(Fault::None);
    let saved = save(&stage.snapshot("source"), &mut nobody).unwrap();
    assert_eq!((saved.memory_bytes, saved.records, saved.pages), (9, 4, 5));
    let steps = [
        "source POST track",
        "source migrate-set-capabilities false",
        "source migrate-set-parameters",
        "source migrate",
        "source migrate-set-parameters",
        "source POST save",
        "source PUT context",
        "source DELETE context",
        "source xp /12wx 0xfebd4000",
    ];
    assert_eq!(stage.changes(), steps);
    assert_eq!(stage.files(), ["vm1.adapter", "vm1.memory"]);
    let mode = fs::metadata(stage.snapshot("source").file).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o077,
        0,
        "keys are in it"
    );
    let restored = restore(&stage.snapshot("destination"), &mut nobody).unwrap();
    assert_eq!((restored.records, restored.pages), (4, 5));
    let changes = stage.changes();
    let (first, last) = (&changes[steps.len()..], changes.last().unwrap());
    let begin = [
        "destination PUT context",
        "destination migrate-set-capabilities false",
        "destination migrate-incoming",
        "destination i/w 0xcf8",
    ];
    assert_eq!(first[..4], begin);
    assert_eq!(last, "destination POST activate");
    let table = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let ended = json!({ "msix_table": table, "end_connections": true });
    assert_eq!(stage.restored(), Some(ended));
    let mut options = stage.snapshot("destination");
    options.keep_connections = true;
    restore(&options, &mut nobody).unwrap();
    assert_eq!(stage.restored(), Some(json!({ "msix_table": table })));
}

#[test]
fn what_fails_leaves_the_files_of_before() {
    let sentence = not_saved(Fault::Refuses("source POST save"));
    let expected =
        "there is no snapshot: no such luck; the adapter works on, and cont lets the VM run";
    assert_eq!(sentence, expected);
    not_saved(Fault::Refuses("source POST track"));
    not_saved(Fault::Refuses("source migrate"));
    not_saved(Fault::Refuses("source xp /12wx 0xfebd4000"));
    let refused = not_saved(Fault::Refuses("source PUT context"));
    assert!(refused.contains("no such luck"), "{refused}");
    let failed = not_saved(Fault::CopyFails);
    assert!(
        failed.contains("QEMU failed with the memory: broken pipe"),
        "{failed}"
    );
}

#[test]
fn a_full_disk_leaves_the_files_of_before() {
    let sentence = taken_back(Fault::None, |options, watcher| {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let name = tempfile::NamedTempFile::new_in(options.file.parent().unwrap());
        let file = tempfile::NamedTempFile::from_parts(full, name.unwrap().into_temp_path());
        save_by(file, options, watcher)
    });
    assert!(sentence.contains("No space left on device"), "{sentence}");
}

/// A watcher that presses Ctrl-C at the first look.
struct Impatient;

impl Watcher for Impatient {
    fn progress(&mut self, _: &Progress) {}

    fn is_interrupted(&self) -> bool {
        true
    }
}

#[test]
fn an_interrupted_one_is_taken_back() {
    let stage = Stage::alone(Fault::CopyTakesForEver);
    let error = save(&stage.snapshot("source"), &mut Impatient).unwrap_err();
    assert!(error.to_string().contains("it was interrupted"), "{error}");
    let changes = stage.changes();
    let end = &changes[changes.len() - 2..];
    assert_eq!(end, ["source migrate_cancel", "source POST thaw"]);
    assert_eq!(stage.files(), Vec::<String>::new());
}

#[test]
fn what_could_not_be_taken_back_is_told() {
    let stage = Stage::alone(Fault::Refuses("source POST thaw"));
    let mut options = stage.snapshot("source");
    options.memory = stage.snapshot("source").file.join("below a file");
    fs::write(&options.file, "").unwrap();
    options.file = stage.snapshot("source").memory;
    // In these tests, QEMU cannot write there either.
    let error = save(&options, &mut Impatient).unwrap_err();
    assert!(error.to_string().contains("restart its daemon"), "{error}");
}

/// Checks that nothing is changed.
#[track_caller]
fn unfit(outcome: Result<impl std::fmt::Debug, SnapshotError>, sentence: &str) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, SnapshotError::Unfit(_)), "{error:?}");
    assert!(error.to_string().contains(sentence), "{error}");
}

#[test]
fn what_cannot_be_saved_is_refused_before_anything_is_changed() {
    let refused = |stage: &Stage, options: &Options, sentence: &str| {
        unfit(save(options, &mut nobody), sentence);
        assert_eq!(stage.changes(), Vec::<String>::new());
        assert_eq!(stage.files(), Vec::<String>::new());
    };
    let running = Stage::with(Fault::ClaimedThere);
    refused(
        &running,
        &running.snapshot("source"),
        "does not stand still, it is running",
    );
    for (fault, sentence) in [
        (Fault::AwayHere, "is away"),
        (Fault::PrivateMemory, "at the VM is not shared"),
        (Fault::OtherVm, "the VM's QEMU has no adapter"),
    ] {
        let stage = Stage::alone(fault);
        refused(&stage, &stage.snapshot("source"), sentence);
    }
    let stage = Stage::alone(Fault::None);
    let mut options = stage.snapshot("source");
    options.file = "/nonexistent/vm1.adapter".into();
    refused(
        &stage,
        &options,
        "cannot write /nonexistent/vm1.adapter: No such file",
    );
    options = stage.snapshot("source");
    options.sockets.qmp = "/nonexistent/qmp".into();
    refused(&stage, &options, "no QEMU listens at /nonexistent/qmp");
}

#[test]
fn what_cannot_be_restored_is_refused_before_anything_is_changed() {
    let refused = |stage: &Stage, options: &Options, sentence: &str| {
        let before = stage.changes();
        unfit(restore(options, &mut nobody), sentence);
        let changes = stage.changes();
        let since: Vec<_> = changes[before.len()..]
            .iter()
            .filter(|it| !it.ends_with(" context"))
            .collect();
        assert!(since.is_empty(), "{since:?}");
    };
    let stage = saved();
    let mut options = stage.snapshot("destination");
    fs::write(&options.memory, "another one").unwrap();
    refused(&stage, &options, "is not the memory that belongs to");
    options.memory = "/nonexistent/memory".into();
    refused(&stage, &options, "cannot read /nonexistent/memory");
    options.file = options.sockets.control.with_extension("toml");
    fs::write(&options.file, "name = 1").unwrap();
    refused(
        &stage,
        &options,
        "is no file that `vrdma adapter save` wrote",
    );
    let stage = saved();
    // The VM that was saved is still there.
    refused(
        &stage,
        &stage.snapshot("source"),
        "does not wait for a snapshot, it is postmigrate",
    );
    for (fault, sentence) in [
        (Fault::Refuses("destination PUT context"), "no such luck"),
        (Fault::Refuses("destination GET context"), "no such luck"),
        (
            Fault::OtherSlot,
            "at PCI address 00:05.1, and is at 00:06.1 now",
        ),
    ] {
        let files = saved();
        let stage = Stage::alone(fault);
        let mut options = stage.snapshot("destination");
        (options.file, options.memory) = (
            files.snapshot("source").file,
            files.snapshot("source").memory,
        );
        refused(&stage, &options, sentence);
        let changes = stage.changes();
        let put = changes.iter().any(|it| it.ends_with("PUT context"));
        let accepted = put && fault != Fault::Refuses("destination PUT context");
        assert_eq!(
            accepted,
            changes.iter().any(|it| it.ends_with("DELETE context"))
        );
    }
}

#[test]
fn what_fails_while_it_is_restored_is_forgotten() {
    for fault in [
        Fault::CopyFails,
        Fault::OtherDevice,
        Fault::Refuses("destination POST restore"),
        Fault::Refuses("destination POST activate"),
    ] {
        let files = saved();
        let stage = Stage::alone(fault);
        let mut options = stage.snapshot("destination");
        (options.file, options.memory) = (
            files.snapshot("source").file,
            files.snapshot("source").memory,
        );
        let error = restore(&options, &mut nobody).unwrap_err();
        assert!(matches!(error, SnapshotError::NotRestored(_)), "{error:?}");
        let changes = stage.changes();
        assert_eq!(changes.last().unwrap(), "destination DELETE context");
        assert_eq!(stage.restored(), None);
    }
}
