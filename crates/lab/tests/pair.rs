//! Two guests connected to each other: what a pair guarantees to its tests.

use std::time::Duration;

use vrdma_lab::guest::Kind;
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};

const LIMIT: Duration = Duration::from_secs(120);

fn start() -> Pair {
    let config = PairConfig {
        kinds: [Kind::Rxe, Kind::Tcp],
        ..PairConfig::new(Network::Direct)
    };
    Pair::start(&config).unwrap()
}

#[test]
fn servers_are_met_when_they_are_ready() {
    let mut pair = start();

    let told = pair
        .run(
            "echo hello | nc -N -l $A 7000",
            "nc $A 7000 </dev/null",
            LIMIT,
        )
        .unwrap();
    assert_eq!(
        (told.server.status, told.client.stdout_text().as_str()),
        (0, "hello\n")
    );

    let forever = pair.run("qperf", "qperf $A --time 1 conf", LIMIT).unwrap();
    assert_eq!((forever.server.status, forever.client.status), (137, 0));

    let refused = pair.run("true", "nc -w 5 $A 7001", LIMIT).unwrap();
    assert_ne!(refused.client.status, 0);

    let error = pair
        .run("echo no; exit 3", "touch /tmp/client-ran", LIMIT)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("the server ended with status 3 before its client:\nno\n"),
        "{error}"
    );
    assert_ne!(
        pair.guest(Side::B)
            .run("test -e /tmp/client-ran")
            .unwrap()
            .status,
        0
    );

    assert_eq!(
        pair.guest(Side::A)
            .check("ls /sys/class/infiniband")
            .unwrap(),
        "rxe0\n"
    );
    assert_eq!(pair.guest(Side::B).check("ssh a hostname").unwrap(), "a\n");

    pair.restart_guest(Side::B).unwrap();
    pair.guest(Side::B).check("ping -c 1 -W 60 $A").unwrap();
}
