//! The report in a real browser. `make study` installs Chromium and runs this; CI does not.

use std::path::Path;
use std::process::Command;

use vrdma_study::record::Results;
use vrdma_study::report;

/// Without the flags of the second line a browser talks to its maker's servers.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,2400",
];

/// An empty page of this size has a tenth of it.
const DRAWN_BYTES: usize = 100_000;

/// The newest run that the project keeps, or the one that the environment names.
fn results() -> String {
    let kept = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/results/results.json"
    );
    std::env::var("VRDMA_STUDY_RESULTS").unwrap_or_else(|_| kept.to_owned())
}

fn browse(folder: &Path, words: &[&str]) -> Vec<u8> {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let page = format!("file://{}", folder.join("report.html").display());
    let output = Command::new("chromium")
        .args(FLAGS)
        .arg(profile)
        .args(words)
        .arg(page)
        .output()
        .expect("chromium starts: install the package chromium");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[test]
#[ignore = "needs the package chromium: make study runs it"]
fn the_report_is_drawn_by_a_browser() {
    let results = results();
    let results = Results::read(Path::new(&results)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    report::write(&results, folder.path()).unwrap();

    let picture = folder.path().join("report.png");
    browse(
        folder.path(),
        &[&format!("--screenshot={}", picture.display())],
    );
    let bytes = std::fs::read(&picture).unwrap();
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(
        (number(16), number(20)),
        (1280, 2400),
        "width and height stand in the PNG's head"
    );
    assert!(
        bytes.len() > DRAWN_BYTES,
        "the page is nearly empty: {} bytes",
        bytes.len()
    );

    let page = String::from_utf8(browse(folder.path(), &["--dump-dom"])).unwrap();
    for study in ["s0 –", "s1 –", "s2 –", "s3 –", "s4 –"] {
        assert!(page.contains(study), "{study}");
    }
    assert!(page.matches("<svg").count() >= 5, "drawings are missing");
}
