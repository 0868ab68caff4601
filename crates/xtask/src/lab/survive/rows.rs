//! The programs that run while workers end.

/// The study's MPI program, which checks every result.
const MPI_SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../study/programs/mpi");

/// Clients of the row with many programs, each with a server of its own.
const MANY: u16 = 64;
const MANY_AT: u16 = 19_000;

/// Default port of perftest and the examples of libibverbs.
const USUAL: u16 = 18_515;

/// How a client finds its server.
#[derive(Clone, Copy)]
pub(super) enum Meets {
    /// At these TCP ports of this host.
    Tcp(u16, u16),
    /// By rdma_cm: the server listens at the adapter, and is ended when its clients are done.
    RdmaCm,
    /// It needs no server.
    Nobody,
}

/// A program as server and client, for a number of seconds. Scripts of `sh`.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) server: fn(u32) -> String,
    pub(super) client: fn(u32) -> String,
    pub(super) meets: Meets,
    /// Whether the short form has it, too.
    pub(super) is_short: bool,
}

/// A program that, as the client, takes the server's address as its last argument.
const fn by_tcp(name: &'static str, server: fn(u32) -> String, client: fn(u32) -> String) -> Row {
    Row {
        name,
        server,
        client,
        meets: Meets::Tcp(USUAL, 1),
        is_short: false,
    }
}

macro_rules! programs {
    ($($name:literal, $command:expr;)*) => {
        [$(by_tcp(
            $name,
            |seconds| { let command: fn(u32) -> String = $command; format!("exec {}", command(seconds)) },
            |seconds| { let command: fn(u32) -> String = $command; format!("exec {} 127.0.0.1", command(seconds)) },
        )),*]
    };
}

/// The first two compare every byte and report differences.
const PROGRAMS: [Row; 8] = programs! {
    "ibv_rc_pingpong -c", |seconds| format!("ibv_rc_pingpong -g 1 -c -s 16384 -n {}", seconds * 3000);
    "ibv_srq_pingpong -c", |seconds| {
        format!("ibv_srq_pingpong -g 1 -c -q 4 -s 4096 -n {}", seconds * 8000)
    };
    "ib_send_lat", |seconds| format!("ib_send_lat -F -s 64 -n {}", seconds * 4000);
    "ib_write_bw", |seconds| format!("ib_write_bw -F -D {seconds}");
    "ib_send_bw", |seconds| format!("ib_send_bw -F -D {seconds}");
    "ib_read_bw", |seconds| format!("ib_read_bw -F -D {seconds}");
    "ib_atomic_bw", |seconds| format!("ib_atomic_bw -F -D {seconds}");
    "ib_send_bw -c UD", |seconds| format!("ib_send_bw -F -c UD -D {seconds}");
};

/// Runs a client repeatedly, until its time is over or it fails.
fn repeated(seconds: u32, command: &str) -> String {
    format!(
        "end=$(($(date +%s) + {seconds})); while [ $(date +%s) -lt $end ]; do {command} || exit 1; done"
    )
}

/// Programs that check what they receive: each ping of rping, each result of MPI, each byte of many at a time.
const OTHERS: [Row; 4] = [
    Row {
        name: "rping -V, again and again",
        server: |_| "exec rping -s -P -a 10.0.0.1".to_owned(),
        client: |seconds| repeated(seconds, "rping -c -V -C 300 -a 10.0.0.1"),
        meets: Meets::RdmaCm,
        is_short: true,
    },
    Row {
        name: "rping -V, one connection",
        server: |_| "exec rping -s -P -a 10.0.0.1".to_owned(),
        client: |seconds| format!("exec rping -c -V -C {} -a 10.0.0.1", seconds * 2000),
        meets: Meets::RdmaCm,
        is_short: false,
    },
    Row {
        name: "Open MPI, 2 ranks",
        server: |_| "exec true".to_owned(),
        client: |seconds| {
            format!(
                "dir=$(mktemp -d) && trap 'rm -r $dir' EXIT && mpicc -O2 -o $dir/mpi {MPI_SOURCES}/*.c -lm && {}",
                repeated(
                    seconds,
                    "mpirun --allow-run-as-root --oversubscribe -np 2 --mca pml ucx --mca btl ^openib \
                     -x UCX_NET_DEVICES=vrdma0:1 -x UCX_TLS=rc_verbs,ud_verbs:aux,self \
                     $dir/mpi allreduce -s 64:64K -n 200"
                )
            )
        },
        meets: Meets::Nobody,
        is_short: false,
    },
    Row {
        name: "64 clients at once",
        server: |seconds| many(seconds, ""),
        client: |seconds| many(seconds, "127.0.0.1"),
        meets: Meets::Tcp(MANY_AT, MANY),
        is_short: false,
    },
];

/// Starts many programs, each of which must succeed.
fn many(seconds: u32, peer: &str) -> String {
    let (first, last) = (MANY_AT, MANY_AT + MANY - 1);
    let messages = seconds * 60;
    format!(
        "all=; for port in $(seq {first} {last}); do \
         ibv_rc_pingpong -g 1 -c -s 1024 -n {messages} -p $port {peer} & all=\"$all $!\"; done; \
         for one in $all; do wait $one || bad=1; done; exit ${{bad:-0}}"
    )
}

/// All rows, or those of the short form.
pub(super) fn rows(short: bool) -> impl Iterator<Item = Row> {
    let all = PROGRAMS.into_iter().chain(OTHERS);
    let first = ["ibv_rc_pingpong -c", "ib_atomic_bw"];
    all.filter(move |row| !short || row.is_short || first.contains(&row.name))
}
