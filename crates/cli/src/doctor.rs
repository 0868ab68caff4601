//! `vrdma doctor`: what this machine can do, what is missing and how to fix it.
//!
//! Changes nothing. Each check is a fact and a verdict about it. Checks of files and programs take the fact as an
//! argument, so that each sentence is tested without a machine in that state.

mod host;
mod process;
mod qemu;
mod service;
mod uplink;

use serde::Serialize;
use vrdma_api::{Status, paths};
use vrdma_api_client::Client;

use crate::arguments::DoctorOptions;
use crate::failure::Failure;
use crate::report::Report;
use crate::table::facts;

/// What a check found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// Good.
    Ok,
    /// It works, slower or less comfortably.
    Warn,
    /// It does not work.
    Fail,
}

/// One check: its name, the verdict, and a sentence that says how to fix what is not good.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Check {
    name: String,
    verdict: Verdict,
    sentence: String,
}

impl Check {
    fn new(name: &str, verdict: Verdict, sentence: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            verdict,
            sentence: sentence.into(),
        }
    }

    fn ok(name: &str, sentence: impl Into<String>) -> Self {
        Self::new(name, Verdict::Ok, sentence)
    }

    fn warn(name: &str, sentence: impl Into<String>) -> Self {
        Self::new(name, Verdict::Warn, sentence)
    }

    fn fail(name: &str, sentence: impl Into<String>) -> Self {
        Self::new(name, Verdict::Fail, sentence)
    }
}

pub(crate) fn run(client: &Client, options: &DoctorOptions) -> Report {
    let status = client.get::<Status>(paths::STATUS).map_err(Failure::from);
    let mut checks = vec![service::daemon(client.socket(), &status)];
    if let Ok(status) = &status {
        checks.push(service::run_dir(&status.run_dir));
        checks.push(service::descriptors(status));
        checks.extend(service::stuck(status));
        checks.extend(service::protections(status));
        checks.extend(service::faults(status));
        checks.extend(process::checks(status));
    }
    checks.push(process::of_programs(status.is_ok()));
    checks.extend(qemu::checks(&options.qemu));
    checks.push(host::kvm(&options.qemu));
    checks.push(host::memory_files());
    checks.push(host::memory_lock());
    let lends = status
        .as_ref()
        .is_ok_and(|status| status.hands_out_userfaultfd);
    checks.push(host::adopting(lends));
    checks.extend(uplink::checks(status.as_ref().ok()));
    report(&checks)
}

fn report(checks: &[Check]) -> Report {
    let rows = checks.iter().map(|check| {
        (
            mark(check.verdict),
            format!("{}: {}", check.name, check.sentence),
        )
    });
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    Report::new(&checks, facts(rows.collect())).bad_news(failed)
}

fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Warn => "WARN",
        Verdict::Fail => "FAIL",
    }
}

#[cfg(test)]
mod tests;
