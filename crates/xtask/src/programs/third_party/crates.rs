//! Tests of a Rust library from Cargo's registry, built by this host's cargo.
//!
//! ```text
//!   target/third-party/crates/NAME/
//!     Cargo.toml     of a package that depends on it, which makes cargo choose a version and get it
//!     target/        what cargo builds
//!     tests/TARGET   its test programs
//!     version        written last
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::origin::{wheel, wheels};

/// The folder with a folder for each library.
pub(super) fn crates() -> Result<PathBuf> {
    Ok(crate::library::target_folder()?.join("third-party/crates"))
}

/// Builds the tests, unless they are there, and returns the library's version.
pub(super) fn tests(name: &str) -> Result<String> {
    let folder = crates()?.join(name);
    let mark = folder.join("version");
    if let Ok(version) = fs::read_to_string(&mark) {
        return Ok(version);
    }
    let package = package(&folder, name)?;
    let programs = build(&folder, &package)?;
    let tests = folder.join("tests");
    fs::create_dir_all(&tests)?;
    for program in programs {
        fs::copy(&program.executable, tests.join(&program.target))?;
    }
    fs::write(&mark, &package.version)?;
    Ok(package.version)
}

/// A package in the output of `cargo metadata`.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

fn package(folder: &Path, name: &str) -> Result<Package> {
    fs::create_dir_all(folder)?;
    let manifest = folder.join("Cargo.toml");
    let text = format!(
        "[package]\nname = \"tests-of-{name}\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n\
         [dependencies]\n{name} = \"*\"\n[workspace]\n"
    );
    fs::write(&manifest, text)?;
    fs::write(folder.join("lib.rs"), "")?;
    let mut cargo = Command::new("cargo");
    cargo.args([
        "metadata",
        "--format-version=1",
        "--quiet",
        "--manifest-path",
    ]);
    let told: Metadata = serde_json::from_slice(&output(cargo.arg(manifest))?)?;
    let mut packages = told.packages.into_iter();
    packages
        .find(|package| package.name == name)
        .with_context(|| format!("cargo knows no {name}"))
}

/// A test program.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    target: String,
    executable: PathBuf,
}

/// Builds the tests. The generator of Rust declarations from C needs libclang, and some build C by cmake. Both come as
/// wheels, libclang without the compiler's own headers.
fn build(folder: &Path, package: &Package) -> Result<Vec<Program>> {
    for tool in ["libclang", "cmake"] {
        wheel(tool, |_| Ok(()))?;
    }
    let headers = output(Command::new("cc").arg("-print-file-name=include"))?;
    let headers = String::from_utf8_lossy(&headers).trim().to_owned();
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--no-run", "--locked", "--quiet"]);
    cargo.args(["--lib", "--tests", "--message-format=json"]);
    cargo.arg("--manifest-path").arg(&package.manifest_path);
    cargo.arg("--target-dir").arg(folder.join("target"));
    cargo.env("CMAKE", wheels()?.join("cmake/cmake/data/bin/cmake"));
    cargo.env("LIBCLANG_PATH", wheels()?.join("libclang/clang/native"));
    cargo.env("BINDGEN_EXTRA_CLANG_ARGS", format!("-isystem {headers}"));
    let messages = output(&mut cargo)?;
    Ok(programs(&String::from_utf8_lossy(&messages)))
}

/// The test programs in cargo's output, a JSON object a line; targets that are no tests have no executable.
fn programs(messages: &str) -> Vec<Program> {
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    #[derive(Deserialize)]
    struct Message {
        target: Target,
        executable: PathBuf,
    }
    let messages = messages.lines().map(serde_json::from_str::<Message>);
    let program = |message: Message| Program {
        target: message.target.name,
        executable: message.executable,
    };
    messages.filter_map(Result::ok).map(program).collect()
}

fn output(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().display().to_string();
    let output = command
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program}: {}", words.trim());
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_what_has_an_executable() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"name":"libc"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"a"},"executable":"/t/a-1"}
{"reason":"build-finished","success":true}"#;
        let expected = Program {
            target: "a".to_owned(),
            executable: "/t/a-1".into(),
        };
        assert_eq!(programs(messages), [expected]);
    }
}
