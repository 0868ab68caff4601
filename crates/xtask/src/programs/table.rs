//! Programs that must work as processes: the guests' table and what guests do not have.

use super::rdmacm::{self, Fact};
use crate::guests::{self, Row, Setting};

/// The place where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// On the host, with its files and processes.
    Host,
    /// In a container, with the image's files and its own processes.
    Container,
}

/// One program pair.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) server: String,
    pub(super) client: String,
    pub(super) expect: Vec<&'static str>,
    /// Whether both start at once, and the server must succeed too: they wait for each other by themselves.
    pub(super) together: bool,
}

/// Sets `$DEV` to the device, which is in no folder of the kernel here.
const DEVICE: &str = "DEV=$(ibv_devices | awk 'NR > 2 { print $1; exit }')";

/// Rows of the host only: libfabric is not in the image.
const HOST_ONLY: &[Fact] = &[
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
    (
        "libraries loaded at run time",
        "",
        "python3 -c \"import ctypes; load = lambda name: ctypes.CDLL(name); \
         verbs, cm = load('libibverbs.so.1'), load('librdmacm.so.1'); \
         cm.rdma_create_event_channel.restype = ctypes.c_void_p; \
         assert cm.rdma_create_event_channel(); verbs.ibv_query_gid_type; \
         print('both are ours')\"",
        &["both are ours"],
    ),
    (
        "files of a device",
        "",
        "python3 -c \"import ctypes, os; \
         verbs = ctypes.CDLL('libibverbs.so.1'); verbs.ibv_get_device_list(None); \
         device = '/sys/class/infiniband/vrdma0'; types = device + '/ports/1/gid_attrs/types'; \
         assert os.path.isdir(os.path.realpath(device + '/../..')); \
         print(len(os.listdir(types)), 'GIDs are', open(types + '/1').read())\"",
        &["16 GIDs are RoCE v2"],
    ),
];

/// Both ranks are on one adapter: mpirun starts them on its own host. Hosts lack NetPIPE.
const OPEN_MPI: Fact = (
    "Open MPI over rc_verbs",
    "",
    "mpirun --allow-run-as-root --oversubscribe -np 2 --mca pml ucx --mca btl ^openib \
     -x UCX_NET_DEVICES=$DEV:1 -x UCX_TLS=rc_verbs,ud_verbs:aux,self -x UCX_LOG_LEVEL=info \
     NPopenmpi -u 65536 -n 20 2>&1",
    &["rc_verbs/", "65536 bytes"],
);

/// The study's MPI program, which checks every result.
const MPI_SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../study/programs/mpi");

/// The host's own Open MPI, with all ranks on one adapter.
fn host_mpi(ranks: u32) -> Program {
    let client = format!(
        "dir=$(mktemp -d) && trap 'rm -r $dir' EXIT && mpicc -O2 -o $dir/mpi {MPI_SOURCES}/*.c -lm && \
         mpirun --allow-run-as-root --oversubscribe -np {ranks} --mca pml ucx --mca btl ^openib \
         -x UCX_NET_DEVICES=$DEV:1 -x UCX_TLS=rc_verbs,ud_verbs:aux,self -x UCX_LOG_LEVEL=info \
         $dir/mpi allreduce -s 64:64K -n 20 2>&1"
    );
    let name = format!("Open MPI of this host, {ranks} ranks");
    program(name, "", &client, &["rc_verbs/", "x65536"])
}

/// The program that registers its memory all the time while everything else uses it.
const MEMORY_STRESS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/memory_stress.c");

/// An allocator for that program.
struct Allocator {
    name: &'static str,
    /// The library in Debian; empty for the program's own allocator.
    library: &'static str,
}

const ALLOCATORS: &[Allocator] = &[
    Allocator {
        name: "glibc",
        library: "",
    },
    Allocator {
        name: "jemalloc",
        library: "libjemalloc.so.2",
    },
    Allocator {
        name: "tcmalloc",
        library: "libtcmalloc_minimal.so.4",
    },
];

fn memory_stress(allocator: &Allocator) -> Program {
    let Allocator { name, library } = allocator;
    let client = format!(
        "dir=$(mktemp -d) && trap 'rm -r $dir' EXIT && cc -O2 -pthread -o $dir/stress {MEMORY_STRESS} -libverbs && \
         if [ -n '{library}' ]; then LD_PRELOAD=\"$LD_PRELOAD $(echo /usr/lib/*/{library})\"; fi && $dir/stress 3 2>&1"
    );
    let name = format!("registered memory under stress, {name}");
    program(name, "", &client, &["all is well"])
}

/// Sets `$P` to the folder of our own programs, which containers see too, beside the socket.
const OWN: &str = "P=$(dirname $VRDMA_SOCKET)/own";

/// Compares files of many sizes byte by byte, and tests peers that misbehave.
const COPIES: Fact = (
    "vrdma-cp",
    "rm -rf $P/in && mkdir $P/in && exec $P/vrdma-cp --receive $P/in --port 18601 --timeout 2",
    "$P/check.sh $P/in $A 2>&1",
    &["all is well"],
);

/// A receiver and a sender of datagrams to a group. Each waits three seconds after it has joined, so that the receiver
/// has joined by then; then the receiver polls until it has received them all.
pub(super) fn mckey() -> Program {
    let group = "239.192.10.1";
    let (server, client) = (
        format!("mckey -m {group} -b $A"),
        format!("mckey -m {group} -b $B -s"),
    );
    Program {
        together: true,
        ..program("mckey".to_owned(), &server, &client, &["return status 0"])
    }
}

/// Datagrams of sockets. The stream is as fast as its sender, and the server prints how many arrived. The echo is
/// checked: each answer must be that of the last datagram. Its client repeats a datagram that was not answered within a
/// millisecond, and waits for ever when both answers come (it sends the number that it has received last). This happens
/// on a machine with more to do than processors, so the row is tried again. A server without an address is bound to the
/// loopback address.
const DATAGRAM_SOCKETS: &[Fact] = &[
    (
        "udpong stream",
        "exec udpong -b $A -T b",
        "udpong -s $A -T b -C 20000 -S 1000",
        &["custom    1000"],
    ),
    (
        "udpong poll",
        "exec udpong -b $A -T a",
        "udpong -s $A -T a -C 20000 -S 64",
        &["custom    64"],
    ),
    (
        "udpong echo",
        "exec udpong -b $A -T b",
        "until timeout 5 udpong -s $A -T b -T e -C 100 -S 1000; do :; done",
        &["custom    1000    200"],
    ),
];

pub(super) fn datagram_sockets() -> impl Iterator<Item = Program> {
    DATAGRAM_SOCKETS.iter().map(fact)
}

fn fact(&(name, server, client, expect): &Fact) -> Program {
    program(name.to_owned(), server, client, expect)
}

/// Rows for guests only: their MPI starts the remote rank by ssh.
const GUESTS_ONLY: &[&str] = &["Open MPI"];

/// Rows between a guest and its host: programs that meet by `rdma_cm` without any option, perftest's option for it, and
/// rows that meet by TCP, for which the host has an address of its own.
const BY_RDMA_CM: &[&str] = &["rping", "ucmatose", "udaddy", "rstream"];
const PERFTEST_BY_RDMA_CM: &str = " -R ";
const BY_TCP: &[&str] = &[
    "ibv_rc_pingpong -g 1 -c",
    "ibv_ud_pingpong -g 1 -c",
    "ib_write_lat -n 200",
    "ib_send_bw -n 200",
    "ib_read_bw -n 200",
    "ib_atomic_bw -n 200",
];

/// An option of the image's ucx_perftest that older versions on hosts lack; their default is the same.
const NEWER_UCX: &str = " -P 0";

/// Rows of a guest and its host that meet by `rdma_cm`; with `short`, those that CI has time for.
pub(super) fn by_rdma_cm(short: bool) -> Vec<Program> {
    of_unlike(short, |row| {
        let mut names = BY_RDMA_CM.iter();
        row.name.contains(PERFTEST_BY_RDMA_CM) || names.any(|name| row.name.starts_with(name))
    })
}

/// The same for rows that meet by TCP.
pub(super) fn by_tcp(short: bool) -> Vec<Program> {
    of_unlike(short, |row| BY_TCP.contains(&row.name.as_str()))
}

fn of_unlike(short: bool, wanted: impl Fn(&Row) -> bool) -> Vec<Program> {
    let rows = guests::rows(Setting {
        short,
        unlike: true,
        ..Setting::default()
    });
    rows.iter().filter(|row| wanted(row)).map(of_row).collect()
}

/// Every row of one kind of place; with `short`, those that CI has time for.
pub(super) fn programs(short: bool, inside: Inside) -> Vec<Program> {
    let setting = Setting {
        short,
        ..Setting::default()
    };
    let rows = guests::rows(setting).into_iter();
    let rows = rows.filter(|row| !GUESTS_ONLY.iter().any(|name| row.name.starts_with(name)));
    let mut programs: Vec<Program> = rows.map(|row| of_row(&row)).collect();
    programs.extend(datagram_sockets());
    match inside {
        Inside::Host => {
            programs.extend(HOST_ONLY.iter().chain(rdmacm::PROGRAMS).map(fact));
            let ranks: &[u32] = if short { &[2] } else { &[2, 4, 8] };
            programs.extend(ranks.iter().map(|ranks| host_mpi(*ranks)));
            programs.push(mckey());
            programs.extend(ALLOCATORS.iter().map(memory_stress));
            for program in &mut programs {
                for command in [&mut program.server, &mut program.client] {
                    *command = command.replace(NEWER_UCX, "");
                }
            }
        }
        Inside::Container => programs.push(fact(&OPEN_MPI)),
    }
    if !short || inside == Inside::Host {
        programs.push(copies());
    }
    programs
}

fn copies() -> Program {
    let (name, server, client, expect) = COPIES;
    Program {
        name: name.to_owned(),
        server: format!("{OWN}; {server}"),
        client: format!("{OWN}; {client}"),
        expect: expect.to_vec(),
        together: false,
    }
}

impl Program {
    /// The same for a server at another address than `$A`, such as `$H`.
    pub(super) fn at(self, address: &str) -> Self {
        self.after(&format!("A={address}"))
    }

    /// The same for a server at `$B` and a client at `$A`.
    pub(super) fn reversed(self) -> Self {
        self.after("C=$A; A=$B; B=$C")
    }

    fn after(self, words: &str) -> Self {
        let turned = |command: &str| format!("{words}; {command}");
        Self {
            server: turned(&self.server),
            client: turned(&self.client),
            ..self
        }
    }
}

fn of_row(row: &Row) -> Program {
    program(row.name.clone(), &row.server, &row.client, row.expect)
}

fn program(name: String, server: &str, client: &str, expect: &[&'static str]) -> Program {
    Program {
        name,
        server: with_device(server),
        client: with_device(client),
        expect: expect.to_vec(),
        together: false,
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
        for inside in [Inside::Host, Inside::Container] {
            let (all, short) = (programs(false, inside), programs(true, inside));
            let names: BTreeSet<_> = all.iter().map(|program| &program.name).collect();
            assert_eq!(names.len(), all.len());
            assert!(short.len() < all.len());
        }
    }

    #[test]
    fn a_guest_and_its_host_meet_in_two_ways() {
        assert_eq!([by_rdma_cm(false).len(), by_rdma_cm(true).len()], [12, 6]);
        assert_eq!(
            [false, true].map(|short| by_tcp(short).len()),
            [BY_TCP.len(); 2]
        );
    }
}
