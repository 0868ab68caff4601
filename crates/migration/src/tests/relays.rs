//! Memory that relays place: QEMUs get the relays' sockets, and reports of a relay become those of the migration.

use super::*;

/// Blocks as QEMU 11.1.3 lists them.
pub(super) const BLOCKS: &str = "\
              Block Name    PSize              Offset               Used              Total                HVA  RO\r
            vrdma-memory    4 KiB  0x0000000000000000 0x0000000040000000 0x0000000040000000 0x00007f8a40000000  rw\r
                            4 KiB  0x0000000010080000 0x00000000003ff000 0x00000000003ff000 0x00007f2be0801000  rw\r
                 pc.bios    4 KiB  0x0000000040000000 0x0000000000040000 0x0000000000040000 0x00007f8a9f600000  ro\r\n";

const READY: &str = r#"{"ready":{"source":"unix:/here","destination":"unix:/there"}}"#;

/// Makes options with a shell script as relay: it saves its request, and prints these words.
fn options(stage: &Stage, says: &str, then: &str) -> Options {
    let mut options = stage.options();
    let asked = stage.file("asked");
    let script = format!("read -r line; echo \"$line\" > {asked}; echo '{says}'; {then}");
    options.memory = Copying {
        relay: Some(RelayProgram {
            program: "/bin/sh".into(),
            arguments: ["-c".into(), script.into()].to_vec(),
            variables: Vec::new(),
        }),
        ..Copying::by("direct:192.0.2.2:4444")
    };
    options
}

#[test]
fn qemus_are_told_of_the_relays_sockets_and_relays_of_qemus_memory() {
    let stage = Stage::with(Fault::None);
    let migration = Migration::prepare(options(&stage, READY, "cat > /dev/null")).unwrap();
    assert_eq!(stage.changes(), Vec::<String>::new());
    let asked = std::fs::read_to_string(stage.file("asked")).unwrap();
    let asked: serde_json::Value = serde_json::from_str(&asked).unwrap();
    let block = json!({
        "name": "vrdma-memory", "bytes": 1 << 30, "page_bytes": 4096,
        "source": 0x7f8a_4000_0000_u64, "destination": 0x7f8a_4000_0000_u64,
    });
    let process = std::process::id();
    let expected = json!({ "to": "192.0.2.2:4444", "process": process, "blocks": [block] });
    assert_eq!(asked, expected);
    migration.run(&mut |_: &Progress| ()).unwrap();
    assert_eq!(stage.uris(), ["unix:/there", "unix:/here"]);
}

#[test]
fn relays_that_cannot_are_told_before_anything_is_changed() {
    let stage = Stage::with(Fault::None);
    let why = r#"{"failed":{"why":"there is no relay"}}"#;
    let prepare = |options| match Migration::prepare(options) {
        Ok(_) => panic!("it is prepared"),
        Err(error) => error.to_string(),
    };
    assert_eq!(prepare(options(&stage, why, "")), "there is no relay");
    let silent = prepare(options(&stage, "", ""));
    assert!(silent.contains("does not say that it is ready"), "{silent}");
    let mut unnamed = options(&stage, READY, "");
    unnamed.memory.relay = None;
    assert!(prepare(unnamed).contains("--relay-adapter"));
    let mut several = options(&stage, READY, "");
    several.memory.channels = Some(2);
    assert!(prepare(several).contains("one stream"));
    let mut nowhere = options(&stage, READY, "");
    nowhere.memory.uri = "direct:here".to_owned();
    assert!(prepare(nowhere).contains("no address and port"));
    assert_eq!(stage.changes(), Vec::<String>::new());
}

#[test]
fn what_the_relay_says_explains_a_broken_stream() {
    let stage = Stage::with(Fault::CopyFails);
    let then = r#"echo '{"failed":{"why":"the other relay has gone"}}'"#;
    let migration = Migration::prepare(options(&stage, READY, then)).unwrap();
    let error = migration
        .run(&mut |_: &Progress| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("the other relay has gone"), "{error}");
    assert!(stage.source_runs());
}

/// Returns the message of a relay that has a file.
fn ready_with_file(stage: &Stage) -> String {
    let file = stage.file("stream");
    std::fs::write(&file, "").unwrap();
    let ready = json!({ "source": "unix:/here", "destination": "unix:/there", "file": file });
    json!({ "ready": ready }).to_string()
}

/// Returns the requests to the source's QEMU between two commands.
fn asked_between(stage: &Stage, from: &str, to: &str) -> Vec<String> {
    let changes = stage.changes().into_iter();
    let after = changes.skip_while(|line| line != from).skip(1);
    let within = after.take_while(|line| line != to);
    within.filter(|line| line.starts_with("source ")).collect()
}

#[test]
fn the_source_gets_the_relays_file_and_gives_it_up_when_pages_have_come() {
    let stage = Stage::with(Fault::None);
    let options = options(&stage, &ready_with_file(&stage), "cat > /dev/null");
    let migration = Migration::prepare(options).unwrap();
    migration.run(&mut |_: &Progress| ()).unwrap();
    assert_eq!(stage.uris(), ["unix:/there", "file:/dev/fdset/5"]);
    let before = asked_between(
        &stage,
        "destination migrate-set-parameters",
        "source migrate",
    );
    let set_up = [
        "source add-fd",
        "source migrate-set-capabilities true",
        "source migrate-set-parameters",
    ];
    assert_eq!(before, set_up);
    let rest = asked_between(&stage, "source migrate", "source migrate-continue");
    assert_eq!(rest, ["source remove-fd"]);
}

#[test]
fn a_file_is_taken_back_with_all_else() {
    let stage = Stage::with(Fault::CopyFails);
    let options = options(&stage, &ready_with_file(&stage), "cat > /dev/null");
    let migration = Migration::prepare(options).unwrap();
    migration.run(&mut |_: &Progress| ()).unwrap_err();
    let undone = asked_between(&stage, "source migrate", "");
    let expected = [
        "source POST thaw",
        "source migrate-set-capabilities false",
        "source migrate-set-parameters",
        "source migrate-set-parameters",
        "source remove-fd",
    ];
    assert_eq!(undone, expected);
    assert!(stage.source_runs());
}

#[test]
fn post_copy_and_files_that_cannot_be_opened() {
    let stage = Stage::with(Fault::None);
    let mut follows = options(&stage, &ready_with_file(&stage), "cat > /dev/null");
    follows.memory.post_copy = true;
    let migration = Migration::prepare(follows).unwrap();
    migration.run(&mut |_: &Progress| ()).unwrap();
    assert_eq!(stage.uris(), ["unix:/there", "unix:/here"]);
    let stage = Stage::with(Fault::None);
    let ready =
        r#"{"ready":{"source":"unix:/here","destination":"unix:/there","file":"/nowhere"}}"#;
    let migration = Migration::prepare(options(&stage, ready, "cat > /dev/null")).unwrap();
    let error = migration.run(&mut |_: &Progress| ()).unwrap_err();
    assert!(
        error.to_string().contains("cannot open /nowhere for QEMU"),
        "{error}"
    );
    assert!(stage.source_runs());
}
