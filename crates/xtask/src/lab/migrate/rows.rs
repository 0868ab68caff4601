//! The programs that run while a guest goes there and back, by who is at their other end.

/// A program, for so many migrations.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) command: fn(u32) -> Command,
}

/// What both ends run.
pub(super) struct Command {
    /// In the guest that goes.
    pub(super) server: String,
    /// At the other end, where `$A` is the guest's address.
    pub(super) client: String,
}

impl Command {
    /// A client that is told the server's address behind all else.
    pub(super) fn of_both(words: String) -> Self {
        let client = format!("{words} $A");
        Self {
            server: words,
            client,
        }
    }
}

/// Enough messages of ping and pong for a migration.
const PINGS: u32 = 8_000;

/// The same in seconds.
const SECONDS: u32 = 6;

/// Between two guests. The first two compare every byte, or complain.
pub(super) const GUESTS: [Row; 7] = [
    Row {
        name: "ibv_rc_pingpong -c",
        command: |times| {
            let pings = times * PINGS;
            Command::of_both(format!(
                "ibv_rc_pingpong -d $DEV -g 1 -c -s 16384 -n {pings}"
            ))
        },
    },
    Row {
        name: "ibv_srq_pingpong -c -e",
        command: |times| {
            let pings = times * PINGS;
            Command::of_both(format!(
                "ibv_srq_pingpong -d $DEV -g 1 -c -e -q 4 -s 4096 -n {pings}"
            ))
        },
    },
    Row {
        name: "ib_send_lat",
        command: |times| {
            let pings = times * PINGS;
            Command::of_both(format!("ib_send_lat -d $DEV -x 1 -F -s 64 -n {pings}"))
        },
    },
    Row {
        name: "ib_write_bw",
        command: |times| {
            let seconds = times * SECONDS;
            Command::of_both(format!("ib_write_bw -d $DEV -x 1 -F -D {seconds}"))
        },
    },
    Row {
        name: "ib_read_bw",
        command: |times| {
            let seconds = times * SECONDS;
            Command::of_both(format!("ib_read_bw -d $DEV -x 1 -F -D {seconds}"))
        },
    },
    Row {
        name: "ib_atomic_bw",
        command: |times| {
            let seconds = times * SECONDS;
            Command::of_both(format!("ib_atomic_bw -d $DEV -x 1 -F -D {seconds}"))
        },
    },
    Row {
        name: "ib_write_bw, 500 queue pairs",
        command: |times| {
            // They take a second or two to connect.
            let seconds = times * SECONDS + SECONDS;
            Command::of_both(format!(
                "ib_write_bw -d $DEV -x 1 -F -q 500 -t 16 -s 256 --mr_per_qp -D {seconds}"
            ))
        },
    },
];

/// Between the guest and a process of the other host, which has no Ethernet to it: all by rdma_cm.
pub(super) const PROCESSES: [Row; 4] = [
    Row {
        name: "rping -V",
        command: |times| {
            let pings = times * PINGS;
            Command {
                server: format!("rping -s -V -C {pings}"),
                client: format!("rping -c -V -C {pings} -a $A"),
            }
        },
    },
    Row {
        name: "ib_send_lat -R",
        command: |times| {
            let pings = times * PINGS;
            Command::of_both(format!("ib_send_lat -d $DEV -R -F -s 64 -n {pings}"))
        },
    },
    Row {
        name: "ib_write_bw -R",
        command: |times| {
            let seconds = times * SECONDS;
            Command::of_both(format!("ib_write_bw -d $DEV -R -F -D {seconds}"))
        },
    },
    Row {
        name: "ib_read_bw -R",
        command: |times| {
            let seconds = times * SECONDS;
            Command::of_both(format!("ib_read_bw -d $DEV -R -F -D {seconds}"))
        },
    },
];
