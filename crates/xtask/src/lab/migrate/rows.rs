//! The programs that run while a guest migrates there and back, by their peer.

/// A program and its amount of work.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Command in the migrating guest. `$N` is the total amount.
    server: &'static str,
    /// Command at the other end, where `$A` is the guest's address; `None` is the server's command followed by it.
    client: Option<&'static str>,
    /// Amount for each migration.
    each: u32,
    /// Amount before the first migration, to connect.
    first: u32,
    /// Whether the guest's adapter writes more than fits into its context.
    pub(super) writes_much: bool,
}

/// The commands of both ends.
pub(super) struct Command {
    pub(super) server: String,
    pub(super) client: String,
}

/// Default port of perftest and the examples of libibverbs.
const USUAL_PORT: u16 = 18515;

impl Command {
    /// The TCP port at which the server listens.
    pub(super) fn port(&self) -> u16 {
        let mut words = self.server.split(' ').skip_while(|word| *word != "-p");
        let said = words.nth(1).and_then(|port| port.parse().ok());
        said.unwrap_or(USUAL_PORT)
    }

    /// Whether the server listens by rdma_cm instead of at its TCP port.
    pub(super) fn by_rdma_cm(&self) -> bool {
        self.server.starts_with("rping") || self.server.split(' ').any(|word| word == "-R")
    }

    /// The same command for both ends; the client gets the server's address as its last argument.
    pub(super) fn of_both(words: String) -> Self {
        let client = format!("{words} $A");
        Self {
            server: words,
            client,
        }
    }
}

impl Row {
    /// The command for this number of migrations.
    pub(super) fn command(&self, times: u32) -> Command {
        let much = (self.first + times * self.each).to_string();
        let of = |words: &str| words.replace("$N", &much);
        match self.client {
            Some(client) => Command {
                server: of(self.server),
                client: of(client),
            },
            None => Command::of_both(of(self.server)),
        }
    }
}

/// A program whose amount is a number of ping-pong messages.
const fn pings(name: &'static str, words: &'static str) -> Row {
    Row {
        name,
        server: words,
        client: None,
        each: 8_000,
        first: 0,
        writes_much: false,
    }
}

/// A program whose amount is a number of seconds.
const fn seconds(name: &'static str, words: &'static str) -> Row {
    Row {
        each: 6,
        ..pings(name, words)
    }
}

/// Its buffers change at any moment, so that a page that was not migrated is noticed when both memories are compared.
/// Filling must not create the file again: the loop would not notice that the file is gone, and never end.
const CHANGING_CLIENT: &str = "F=/dev/shm/changing; fill() { dd if=/dev/urandom of=$F bs=1M count=41 conv=notrunc,nocreat 2> /dev/null; }; \
     : > $F; fill; (while [ -e $F ]; do fill; done) & \
     ib_write_bw -d $DEV -x 1 -F -q 160 -s 131072 -t 4 -D $N --mmap=$F $A; status=$?; rm $F; wait; exit $status";

/// Programs between two guests. The ping-pongs compare what they receive, and report differences.
pub(super) const GUESTS: [Row; 8] = [
    pings(
        "ibv_rc_pingpong -c",
        "ibv_rc_pingpong -d $DEV -g 1 -c -s 16384 -n $N",
    ),
    pings(
        "ibv_srq_pingpong -c -e",
        "ibv_srq_pingpong -d $DEV -g 1 -c -e -q 4 -s 4096 -n $N",
    ),
    pings("ib_send_lat", "ib_send_lat -d $DEV -x 1 -F -s 64 -n $N"),
    seconds("ib_write_bw", "ib_write_bw -d $DEV -x 1 -F -D $N"),
    Row {
        first: 6,
        each: 18,
        writes_much: true,
        client: Some(CHANGING_CLIENT),
        ..seconds(
            "ib_write_bw to 20 MiB",
            "ib_write_bw -d $DEV -x 1 -F -q 160 -s 131072 -t 4 -D $N",
        )
    },
    seconds("ib_read_bw", "ib_read_bw -d $DEV -x 1 -F -D $N"),
    seconds("ib_atomic_bw", "ib_atomic_bw -d $DEV -x 1 -F -D $N"),
    Row {
        first: 6,
        ..seconds(
            "ib_write_bw, 500 queue pairs",
            "ib_write_bw -d $DEV -x 1 -F -q 500 -t 16 -s 256 --mr_per_qp -D $N",
        )
    },
];

/// A program between the guest and a third one, while the first of [`GUESTS`] is at the usual port. On emulated
/// processors a packet of rxe takes ten times as long as one of ours.
pub(super) const BESIDE: Row = Row {
    each: 1_000,
    ..pings(
        "ibv_rc_pingpong -c, to rxe",
        "ibv_rc_pingpong -d $DEV -p 18517 -g 1 -c -s 4096 -n $N",
    )
};

/// A program between two guests that wait 1 ms for an answer, eight times: a migration takes longer, and their adapters
/// tell each other. Linux's rxe is not told, and a worker that follows another does not know what its adapters were
/// told.
pub(super) const IMPATIENT: [Row; 1] = [pings(
    "ib_send_lat -u 8",
    "ib_send_lat -d $DEV -x 1 -F -u 8 -s 64 -n $N",
)];

/// Programs between the guest and a process of the other host, which has no Ethernet to the guest: all use rdma_cm.
pub(super) const PROCESSES: [Row; 7] = [
    Row {
        client: Some("rping -c -V -C $N -a $A"),
        ..pings("rping -V", "rping -s -V -C $N")
    },
    pings("ib_send_lat -R", "ib_send_lat -d $DEV -R -F -s 64 -n $N"),
    // The guest does nothing for this row, so its longest latency is the time in which the adapter does not answer.
    Row {
        each: 100_000,
        ..pings("ib_read_lat -R", "ib_read_lat -d $DEV -R -F -s 64 -n $N")
    },
    seconds("ib_write_bw -R", "ib_write_bw -d $DEV -R -F -D $N"),
    seconds("ib_read_bw -R", "ib_read_bw -d $DEV -R -F -D $N"),
    // The guest does nothing for these, either, and they report the gaps of each migration.
    Row {
        client: Some("$RUN/gaps -R 2 $N $A"),
        ..seconds("64-byte writes, 2 queue pairs", "/tmp/gaps -R 2")
    },
    Row {
        first: 6,
        client: Some("$RUN/gaps -R 500 $N $A"),
        ..seconds("64-byte writes, 500 queue pairs", "/tmp/gaps -R 500")
    },
];

/// Programs on both adapters at once, between two guests with two adapters each. The ping-pongs sleep, as a guest has
/// one processor. The lab waits for the listener at the usual port, so that of the other port is started first.
pub(super) const TWO_ADAPTERS: [Row; 2] = [
    Row {
        client: Some(
            "set -- $DEV; ibv_rc_pingpong -d $2 -p 18516 -g 1 -e -c -s 4096 -n $N $A2 & \
             ibv_rc_pingpong -d $1 -g 1 -e -c -s 16384 -n $N $A; first=$?; wait $! && exit $first",
        ),
        ..pings(
            "ibv_rc_pingpong -c -e on each",
            "set -- $DEV; ibv_rc_pingpong -d $2 -p 18516 -g 1 -e -c -s 4096 -n $N & \
             until grep -qs \":4854 [0-9A-F:]* 0A\" /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; \
             ibv_rc_pingpong -d $1 -g 1 -e -c -s 16384 -n $N; first=$?; wait $! && exit $first",
        )
    },
    Row {
        client: Some(
            "set -- $DEV; ib_read_bw -d $2 -p 18516 -x 1 -F -D $N $A2 & \
             ib_write_bw -d $1 -x 1 -F -D $N $A; first=$?; wait $! && exit $first",
        ),
        ..seconds(
            "ib_write_bw and ib_read_bw",
            "set -- $DEV; ib_read_bw -d $2 -p 18516 -x 1 -F -D $N & \
             until grep -qs \":4854 [0-9A-F:]* 0A\" /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; \
             ib_write_bw -d $1 -x 1 -F -D $N; first=$?; wait $! && exit $first",
        )
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_do_as_much_as_the_migrations_take() {
        let both = GUESTS[7].command(2);
        assert!(both.server.ends_with("-D 18"), "{}", both.server);
        assert!(both.client.ends_with("-D 18 $A"), "{}", both.client);
        let rping = PROCESSES[0].command(1);
        assert_eq!(rping.server, "rping -s -V -C 8000");
        assert_eq!(both.port(), USUAL_PORT);
        assert_eq!(BESIDE.command(1).port(), 18517);
        assert_eq!(rping.client, "rping -c -V -C 8000 -a $A");
    }
}
