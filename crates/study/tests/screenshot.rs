//! The report in a real browser. `make study` installs Chromium and runs this; CI does not.
//!
//! ```text
//!   report.html --picture--> a PNG beside that of an empty page
//!              `-a script put into a copy-> headings, drawings, what was loaded and what failed, as the browser saw it
//! ```

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use vrdma_study::key::Study;
use vrdma_study::record::Results;
use vrdma_study::report;

/// Without the flags of the third line a browser contacts its maker's servers; with the last one no name has an
/// address.
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
    "--host-resolver-rules=MAP * ~NOTFOUND",
];

/// How many times larger the picture of a page with contents must be than that of an empty one.
const DRAWN: usize = 5;

/// Runs before all other scripts of the page.
const LISTEN: &str = "<script>window.failed = [];\
    addEventListener('error', event => failed.push(event.message || event.target.src || event.target.href), true);</script>";

/// Runs last, and writes what it found into the page.
const LOOK: &str = "<script>addEventListener('load', () => {\
    const all = (name) => [...document.querySelectorAll(name)];\
    const shown = (element) => element.getBoundingClientRect().width > 100 && element.querySelector('rect, polyline, circle');\
    const seen = { failed, loaded: performance.getEntriesByType('resource').map(entry => entry.name),\
        headings: all('h2').filter(heading => heading.offsetHeight > 0).map(heading => heading.innerText),\
        drawings: all('svg').length, hidden: all('svg').filter(svg => !shown(svg)).length,\
        rows: all('tbody tr').length, overflow: document.documentElement.scrollWidth - innerWidth };\
    const place = document.createElement('pre'); place.id = 'seen'; place.innerText = JSON.stringify(seen);\
    document.body.append(place); });</script>";

/// The newest run that the project keeps, or the one that the environment names.
fn results() -> String {
    let kept = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/results/results.json"
    );
    std::env::var("VRDMA_STUDY_RESULTS").unwrap_or_else(|_| kept.to_owned())
}

fn browse(page: &Path, word: &str) -> Vec<u8> {
    let profile = format!(
        "--user-data-dir={}",
        page.with_file_name("profile").display()
    );
    let output = Command::new("chromium")
        .args(FLAGS)
        .arg(profile)
        .arg(word)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium starts: install the package chromium");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Size in bytes of a picture of the page, whose header has its width and height.
fn picture(page: &Path) -> usize {
    let file = page.with_extension("png");
    browse(page, &format!("--screenshot={}", file.display()));
    let bytes = fs::read(&file).unwrap();
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((number(16), number(20)), (1280, 2400));
    bytes.len()
}

/// What the scripts found in a page with this text.
fn seen(folder: &Path, html: &str) -> Value {
    let page = folder.join("looked-at.html");
    let html = html
        .replacen("<head>", &format!("<head>{LISTEN}"), 1)
        .replacen("</body>", &format!("{LOOK}</body>"), 1);
    fs::write(&page, html).unwrap();
    let dom = String::from_utf8(browse(&page, "--dump-dom")).unwrap();
    let (_, seen) = dom.split_once("<pre id=\"seen\">").expect("the script ran");
    let (json, _) = seen.split_once("</pre>").unwrap();
    let json = json
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    serde_json::from_str(&json).unwrap()
}

#[test]
#[ignore = "needs the package chromium: make study runs it"]
fn the_report_is_drawn_by_a_browser() {
    let results = results();
    let results = Results::read(Path::new(&results)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    report::write(&results, folder.path()).unwrap();
    let page = folder.path().join("report.html");

    let empty = folder.path().join("empty.html");
    fs::write(
        &empty,
        "<!doctype html><html><head></head><body></body></html>",
    )
    .unwrap();
    let (drawn, blank) = (picture(&page), picture(&empty));
    assert!(
        drawn > DRAWN * blank,
        "{drawn} bytes, and {blank} of an empty page"
    );

    let seen = seen(folder.path(), &fs::read_to_string(&page).unwrap());
    assert_eq!(seen["failed"], Value::Array(Vec::new()));
    assert_eq!(
        seen["loaded"],
        Value::Array(Vec::new()),
        "one file, no network"
    );
    let headings = seen["headings"].as_array().unwrap();
    for study in Study::ALL {
        let begin = format!("{study} –");
        let has = |heading: &Value| heading.as_str().unwrap().starts_with(&begin);
        assert!(headings.iter().any(has), "{study} has no heading: {seen}");
    }
    assert!(seen["drawings"].as_u64().unwrap() >= 5, "{seen}");
    assert_eq!(seen["hidden"], 0, "{seen}");
    assert!(seen["rows"].as_u64().unwrap() > 100, "{seen}");
    assert!(
        seen["overflow"].as_i64().unwrap() <= 0,
        "the page is wider than the window: {seen}"
    );
}

/// Without this test, the checks above might not notice anything.
#[test]
#[ignore = "needs the package chromium: make study runs it"]
fn the_browser_sees_what_a_page_loads_and_what_fails() {
    let folder = tempfile::tempdir().unwrap();
    let html = "<!doctype html><html><head></head><body><svg></svg><img src=\"http://example.org/a.png\">\
        <script>nowhere()</script></body></html>";
    let seen = seen(folder.path(), html);
    let failed = seen["failed"].to_string();
    assert!(failed.contains("nowhere is not defined"), "{seen}");
    assert!(failed.contains("http://example.org/a.png"), "{seen}");
    assert!(
        seen["loaded"]
            .to_string()
            .contains("http://example.org/a.png"),
        "{seen}"
    );
    assert_eq!(seen["hidden"], 1, "{seen}");
}
