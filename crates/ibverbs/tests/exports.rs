//! The linked library against the table of its names: nothing is missing, nothing else is exported,
//! every version node is there.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

use object::elf;
use object::read::elf::{FileHeader, Sym, SymbolTable, VersionTable};
use object::{Endianness, StringTable};

type Elf = elf::FileHeader64<Endianness>;

const TABLE: &str = include_str!("../names.txt");

/// (name, version node), an empty node for none.
type Export = (String, String);

fn expected() -> (BTreeSet<Export>, BTreeSet<String>) {
    let (mut exports, mut nodes) = (BTreeSet::new(), BTreeSet::new());
    let mut section: Vec<(String, &str)> = Vec::new();
    for line in TABLE.lines() {
        let words: Vec<&str> = line.split('#').next().unwrap().split_whitespace().collect();
        match words[..] {
            [] => continue,
            ["node", name, ..] => section = vec![(name.to_owned(), "")],
            ["private", ref numbers @ ..] => {
                section = numbers
                    .iter()
                    .map(|number| (format!("IBVERBS_PRIVATE_{number}"), *number))
                    .collect();
            }
            ["bare"] => section = vec![(String::new(), "")],
            [name, ..] => exports.extend(
                section
                    .iter()
                    .map(|(node, number)| (name.replace('%', number), node.clone())),
            ),
        }
        nodes.extend(
            section
                .iter()
                .map(|(node, _)| node.clone())
                .filter(|node| !node.is_empty()),
        );
    }
    (exports, nodes)
}

/// The library of this profile, linked once.
fn library() -> &'static [u8] {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY.get_or_init(link)
}

fn link() -> Vec<u8> {
    let mut cargo = Command::new(env!("CARGO"));
    // Cargo runs as from a shell at the root: for another package, or told of this one, it builds much of it once more.
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let of_package = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_package(name)) {
        cargo.env_remove(name);
    }
    cargo.args(["xtask", "library"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.output().expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let path = String::from_utf8(output.stdout).expect("a path");
    std::fs::read(path.trim()).expect("the library is there")
}

struct Read<'a> {
    symbols: SymbolTable<'a, Elf>,
    versions: VersionTable<'a, Elf>,
}

impl<'a> Read<'a> {
    fn new(data: &'a [u8]) -> Self {
        let header = Elf::parse(data).expect("an ELF file");
        let endian = header.endian().expect("known byte order");
        let sections = header.sections(endian, data).expect("sections");
        let symbols = sections
            .symbols(endian, data, elf::SHT_DYNSYM)
            .expect("symbols");
        let versions = sections
            .versions(endian, data)
            .expect("versions")
            .expect("some");
        Self { symbols, versions }
    }

    /// Returns (name, node, whether it is the default) of all names defined here, without the nodes' own symbols.
    fn exports(&self) -> Vec<(Export, bool)> {
        let strings: StringTable<'a> = self.symbols.strings();
        let mut exports = Vec::new();
        for (index, symbol) in self.symbols.enumerate() {
            let endian = Endianness::Little;
            if symbol.is_undefined(endian)
                || index.0 == 0
                || symbol.st_shndx.get(endian) == elf::SHN_ABS
            {
                continue;
            }
            let name =
                String::from_utf8_lossy(symbol.name(endian, strings).expect("a name")).into_owned();
            let version = self.versions.version_index(endian, index);
            let node = self
                .versions
                .version(version)
                .expect("a version")
                .map_or_else(String::new, |node| {
                    String::from_utf8_lossy(node.name()).into_owned()
                });
            exports.push(((name, node), !version.is_hidden()));
        }
        exports
    }
}

#[test]
fn exactly_the_names_of_the_table_are_exported() {
    let data = library();
    let found: BTreeSet<Export> = Read::new(data)
        .exports()
        .into_iter()
        .map(|(export, _)| export)
        .collect();
    let (wanted, _) = expected();
    let missing: Vec<_> = wanted.difference(&found).collect();
    let extra: Vec<_> = found.difference(&wanted).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing: {missing:?}\nextra: {extra:?}"
    );
}

/// `dlvsym` and the linker take the default: the last node that has the name.
#[test]
fn each_name_has_one_default_version() {
    let data = library();
    let defaults: Vec<Export> = Read::new(data)
        .exports()
        .into_iter()
        .filter_map(|(export, is_default)| is_default.then_some(export))
        .collect();
    let names: BTreeSet<&str> = defaults.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), defaults.len(), "a name has two defaults");
    let node = |name: &str| {
        defaults
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, node)| node.as_str())
    };
    assert_eq!(node("ibv_reg_mr"), Some("IBVERBS_1.1"));
    assert_eq!(node("ibv_rate_to_mult"), Some("IBVERBS_1.0"));
    assert_eq!(node("rdma_establish"), Some("RDMACM_1.2"));
    assert_eq!(
        node("ibv_query_gid_type"),
        Some("IBVERBS_PRIVATE_65"),
        "dlsym finds private names too, as in rdma-core"
    );
}

/// A missing version node keeps a program from starting, even if it uses no name of it.
#[test]
fn every_version_node_is_defined() {
    let data = library();
    let header = Elf::parse(data).expect("an ELF file");
    let endian = header.endian().expect("known byte order");
    let sections = header.sections(endian, data).expect("sections");
    let (mut definitions, strings) = sections
        .gnu_verdef(endian, data)
        .expect("versions")
        .expect("some");
    let strings = sections.strings(endian, data, strings).expect("strings");
    let mut found = BTreeSet::new();
    while let Some((_, mut names)) = definitions.next().expect("a definition") {
        let name = names
            .next()
            .expect("a name")
            .expect("its name")
            .name(endian, strings)
            .expect("text");
        found.insert(String::from_utf8_lossy(name).into_owned());
    }
    let (_, wanted) = expected();
    let missing: Vec<_> = wanted.difference(&found).collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
}

/// Ubuntu 20.04 and Debian 11 have glibc 2.31.
#[cfg(target_arch = "x86_64")]
#[test]
fn glibc_2_31_is_enough() {
    let data = library();
    let header = Elf::parse(data).expect("an ELF file");
    let endian = header.endian().expect("known byte order");
    let sections = header.sections(endian, data).expect("sections");
    let (mut needs, strings) = sections
        .gnu_verneed(endian, data)
        .expect("versions")
        .expect("some");
    let strings = sections.strings(endian, data, strings).expect("strings");
    let mut found = 0;
    while let Some((_, mut versions)) = needs.next().expect("a need") {
        while let Some(version) = versions.next().expect("a version") {
            let name = version.name(endian, strings).expect("text");
            let name = String::from_utf8_lossy(name);
            let Some(number) = name.strip_prefix("GLIBC_2.") else {
                continue;
            };
            let minor: u32 = number
                .split('.')
                .next()
                .expect("a part")
                .parse()
                .expect("a number");
            assert!(minor <= 31, "{name} is needed");
            found += 1;
        }
    }
    assert!(found > 0, "no need of glibc was found");
}
