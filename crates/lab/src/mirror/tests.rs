use super::*;

const DEB822: &str = "\
Types: deb deb-src
# an old address
URIs: http://mirror.example/debian
Suites: bookworm
 bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://security.example/debian-security
Suites: bookworm-security
Components: main
";

fn source(uri: &str, suites: &[&str]) -> Source {
    Source {
        uri: uri.to_owned(),
        suites: suites.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn deb822_stanzas_are_read() {
    let expected = [
        source(
            "http://mirror.example/debian",
            &["bookworm", "bookworm-updates"],
        ),
        source(
            "http://security.example/debian-security",
            &["bookworm-security"],
        ),
    ];
    assert_eq!(parse_deb822(DEB822), expected);
}

#[test]
fn disabled_and_source_stanzas_are_skipped() {
    let off = "Enabled: no\nTypes: deb\nURIs: http://x.example\nSuites: trixie\n";
    assert_eq!(parse_deb822(off), []);
    let only_source = "Types: deb-src\nURIs: http://x.example\nSuites: trixie\n";
    assert_eq!(parse_deb822(only_source), []);
}

#[test]
fn one_line_entries_are_read() {
    let lines = "\
# deb http://old.example/debian trixie main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian trixie main contrib # ours
deb-src http://mirror.example/debian trixie main
deb\thttp://tab.example/debian  sid main
";
    let sources: Vec<Source> = uncommented(lines).filter_map(parse_line).collect();
    let expected = [
        source("http://mirror.example/debian", &["trixie"]),
        source("http://tab.example/debian", &["sid"]),
    ];
    assert_eq!(sources, expected);
}

#[test]
fn security_archives_are_passed_over() {
    let sources = [
        source("http://s.example", &["trixie-security"]),
        source("http://m.example", &["trixie"]),
    ];
    assert_eq!(choose(&sources).unwrap(), "http://m.example");
}

#[test]
fn another_distribution_needs_the_variable() {
    let error = choose(&[source("http://archive.example/ubuntu", &["noble"])]).unwrap_err();
    assert!(error.to_string().contains("noble") && error.to_string().contains(MIRROR_VARIABLE));
}

#[test]
fn a_list_of_mirrors_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("debian.list");
    fs::write(&list, "# first\nhttps://m.example/debian\tpriority:1\n").unwrap();
    assert_eq!(
        resolve(&format!("mirror+file:{}", list.display())).unwrap(),
        "https://m.example/debian"
    );
}

#[test]
fn a_whole_configuration_folder_is_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sources.list.d")).unwrap();
    fs::write(folder.path().join("sources.list.d/debian.sources"), DEB822).unwrap();
    fs::write(
        folder.path().join("sources.list.d/notes.txt"),
        "deb http://no.example sid main",
    )
    .unwrap();
    fs::write(
        folder.path().join("sources.list"),
        "deb http://other.example/x noble main\n",
    )
    .unwrap();
    let sources = host_sources(folder.path());
    assert_eq!(sources.len(), 3);
    assert_eq!(choose(&sources).unwrap(), "http://mirror.example/debian");
}
