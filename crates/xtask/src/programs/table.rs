//! What must work as a process: the guests' table and what guests do not have.

use crate::guests::{self, Setting};

/// One program pair.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) server: String,
    pub(super) client: String,
    pub(super) expect: Vec<&'static str>,
    /// The guests' image has it.
    pub(super) in_image: bool,
}

/// The device, which no folder of the kernel names here.
const DEVICE: &str = "DEV=$(ibv_devices | awk 'NR > 2 { print $1; exit }')";

/// Name, server, client, words. libfabric is not in the image.
const HOST_ONLY: &[(&str, &str, &str, &[&str])] = &[
    (
        "fi_pingpong verbs msg",
        "fi_pingpong -p verbs -e msg -d $DEV -I 100",
        "fi_pingpong -p verbs -e msg -d $DEV -I 100 $A",
        &["64k"],
    ),
    (
        "fi_pingpong verbs;ofi_rxm rdm",
        "fi_pingpong -p 'verbs;ofi_rxm' -e rdm -I 100",
        "fi_pingpong -p 'verbs;ofi_rxm' -e rdm -I 100 $A",
        &["64k"],
    ),
];

/// Both ranks on one adapter: mpirun starts them where it is itself.
const OPEN_MPI: (&str, &str, &str, &[&str]) = (
    "Open MPI over rc_verbs",
    "",
    "mpirun --allow-run-as-root --oversubscribe -np 2 --mca pml ucx --mca btl ^openib \
     -x UCX_NET_DEVICES=$DEV:1 -x UCX_TLS=rc_verbs,ud_verbs:aux,self -x UCX_LOG_LEVEL=info \
     NPopenmpi -u 65536 -n 20 2>&1",
    &["rc_verbs/", "65536 bytes"],
);

/// Rows of guests that are about guests: their MPI starts the far rank by ssh.
const GUESTS_ONLY: &[&str] = &["Open MPI"];

/// Every row; with `short`, those that CI has time for.
pub(super) fn programs(short: bool) -> Vec<Program> {
    let rows = guests::rows(Setting {
        short,
        ..Setting::default()
    })
    .into_iter();
    let rows = rows.filter(|row| !GUESTS_ONLY.iter().any(|name| row.name.starts_with(name)));
    let mut programs: Vec<Program> = rows
        .map(|row| program(row.name, &row.server, &row.client, row.expect, true))
        .collect();
    let own =
        |&(name, server, client, expect): &(&str, &str, &str, &'static [&'static str]),
         in_image| { program(name.to_owned(), server, client, expect, in_image) };
    programs.extend(HOST_ONLY.iter().map(|row| own(row, false)));
    programs.push(own(&OPEN_MPI, true));
    programs
}

fn program(
    name: String,
    server: &str,
    client: &str,
    expect: &[&'static str],
    in_image: bool,
) -> Program {
    Program {
        name,
        server: with_device(server),
        client: with_device(client),
        expect: expect.to_vec(),
        in_image,
    }
}

fn with_device(command: &str) -> String {
    match command {
        "" => String::new(),
        command => format!("{DEVICE}; {command}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_short_is_shorter() {
        let (all, short) = (programs(false), programs(true));
        let names: BTreeSet<_> = all.iter().map(|program| &program.name).collect();
        assert_eq!(names.len(), all.len());
        assert!(short.len() < all.len());
    }
}
