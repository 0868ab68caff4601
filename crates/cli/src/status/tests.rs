use vrdma_api::{
    Adapter, DoorbellMode, EthernetStats, Keeper, Origin, PollMode, PortGroup, RdmaStats,
    ShardStatus, Upgrade, UpgradeOutcome,
};

use super::*;

fn group(name: &str, origin: Origin) -> PortGroup {
    PortGroup {
        allow_roce_frames: false,
        name: name.parse().unwrap(),
        vlan: None,
        vni: None,
        origin,
        adapters: vec![],
        users: vec![],
        groups: vec![],
        limits: Default::default(),
        weight: Default::default(),
        throttled: Default::default(),
        throttled_in: Default::default(),
        over_limit: 0,
        drops: None,
    }
}

fn adapter(name: &vrdma_api::Name) -> Adapter {
    Adapter {
        name: name.clone(),
        portgroup: "blue".parse().unwrap(),
        mac: "52:54:00:00:00:01".parse().unwrap(),
        doorbells: DoorbellMode::Mapped,
        origin: Origin::Config,
        kind: Default::default(),
        ip: Default::default(),
        vfio_user_socket: Some(format!("/run/vrdma/{name}.vfio-user").into()),
        ethernet_socket: Some(format!("/run/vrdma/{name}.ethernet").into()),
        process_socket: None,
        shard: None,
        away: false,
        limits: Default::default(),
        weight: Default::default(),
        users: vec!["alice".parse().unwrap()],
        groups: vec!["rdma".parse().unwrap()],
    }
}

fn status() -> Status {
    let names = ["vm1", "vm2"].map(|name| name.parse().unwrap());
    let stats = |name: &vrdma_api::Name, guest_connected| AdapterStats {
        name: name.clone(),
        rdma: RdmaStats {
            guest_connected,
            state: "active".to_owned(),
            ..RdmaStats::default()
        },
        ethernet: EthernetStats {
            connected: guest_connected,
            ..EthernetStats::default()
        },
    };
    Status {
        version: "0.1.0".to_owned(),
        pid: 42,
        keeper: None,
        uptime_seconds: 4000,
        config: Some("/etc/vrdma/vrdmad.toml".into()),
        run_dir: "/run/vrdma".into(),
        shards: Vec::new(),
        ethernet_silent_ms: None,
        opens_interfaces: false,
        hands_out_userfaultfd: false,
        protections: vec![],
        poll: PollMode::Adaptive,
        migration: None,
        portgroups: vec![
            PortGroup {
                vlan: Some("10".parse().unwrap()),
                adapters: names.to_vec(),
                ..group("blue", Origin::Config)
            },
            PortGroup {
                vni: Some("5000".parse().unwrap()),
                ..group("red", Origin::Runtime)
            },
        ],
        uplinks: vec![],
        adapters: names.iter().map(adapter).collect(),
        stats: vec![stats(&names[0], true), stats(&names[1], false)],
    }
}

#[test]
fn everything_in_one_look() {
    insta::assert_snapshot!(text(&status()), @r#"
    daemon         vrdmad 0.1.0, process 42
    up             1 h 6 min
    configuration  /etc/vrdma/vrdmad.toml
    run folder     /run/vrdma
    polling        adaptive

    no shards

    PORT GROUP  VLAN   VNI  FROM     ADAPTERS
    blue          10    10  config   vm1 vm2
    red            -  5000  runtime

    ADAPTER  PORT GROUP  MAC                USERS        RDMA      ETHERNET   QPS  FAULT
    vm1      blue        52:54:00:00:00:01  alice @rdma  active    connected    0
    vm2      blue        52:54:00:00:00:01  alice @rdma  no guest  no guest     0
    "#);
}

#[test]
fn shards_are_told_with_their_cores_and_load() {
    let shard = |core, busy_percent| ShardStatus {
        core,
        adapters: 3,
        busy_percent,
        transfers: 70_000,
        silent_ms: core.map(|_| 4700),
    };
    let status = Status {
        shards: vec![shard(None, 0), shard(Some(5), 97)],
        ..status()
    };
    insta::assert_snapshot!(shards(&status), @r"
    SHARD  CORE  ADAPTERS  BUSY  HANDED OVER  STATE
        0   any         3   0 %        70000  goes on
        1     5         3  97 %        70000  no turn for 4 s
    ");
}

#[test]
fn an_ethernet_thread_that_stands_still_is_told() {
    let status = Status {
        ethernet_silent_ms: Some(3000),
        ..status()
    };
    assert!(daemon(&status).ends_with("Ethernet       no turn for 3 s"));
}

#[test]
fn a_keeper_tells_what_came_of_the_last_upgrade() {
    let keeper = |workers, outcome: Option<UpgradeOutcome>| Keeper {
        pid: 41,
        workers,
        last_upgrade: outcome.map(|outcome| Upgrade {
            number: 1,
            outcome,
            reason: "it cannot".to_owned(),
        }),
    };
    let cases = [
        (keeper(1, None), "process 41, the first worker"),
        (
            keeper(3, Some(UpgradeOutcome::Done)),
            "process 41, worker 3, upgraded",
        ),
        (
            keeper(1, Some(UpgradeOutcome::Refused)),
            "process 41, the first worker, the last upgrade was refused: it cannot",
        ),
        (
            keeper(3, Some(UpgradeOutcome::WentBack)),
            "process 41, worker 3, the last upgrade failed: it cannot",
        ),
    ];
    for (keeper, told) in cases {
        assert_eq!(kept(&keeper), told);
    }
}

#[test]
fn adapters_of_processes_tell_who_has_them_open() {
    let with = |processes, contexts| {
        let mut status = status();
        status.adapters[1].kind = AdapterKind::Process;
        let rdma = &mut status.stats[1].rdma;
        (rdma.processes, rdma.objects.uc) = (Some(processes), contexts);
        adapters(&status).lines().last().unwrap().to_owned()
    };
    assert!(with(0, 0).contains("no process  vrdmad"), "{}", with(0, 0));
    assert!(
        with(1, 1).contains("1 process 1 context "),
        "{}",
        with(1, 1)
    );
    assert!(
        with(2, 3).contains("2 processes 3 contexts "),
        "{}",
        with(2, 3)
    );
}

#[test]
fn a_tap_has_no_device() {
    let mut status = status();
    status.adapters[1].kind = AdapterKind::Tap;
    status.stats[1].ethernet.connected = true;
    status.stats[1].rdma.state = String::new();
    let shown = adapters(&status);
    let line = shown.lines().last().unwrap();
    assert!(line.contains("-       connected"), "{line}");
}

#[test]
fn an_empty_daemon_says_what_to_do_next() {
    let empty = Status {
        config: None,
        portgroups: vec![],
        adapters: vec![],
        stats: vec![],
        ..status()
    };
    insta::assert_snapshot!(text(&empty), @r#"
    daemon         vrdmad 0.1.0, process 42
    up             1 h 6 min
    configuration  none
    run folder     /run/vrdma
    polling        adaptive

    no shards

    no port groups; add one with `vrdma portgroup add NAME`

    no adapters; add one with `vrdma adapter add NAME --portgroup GROUP`
    "#);
}

#[test]
fn uptimes_have_two_units_at_most() {
    let shown = [0, 59, 60, 3599, 3600, 86_399, 86_400, 900_000]
        .map(|seconds| uptime(Duration::from_secs(seconds)));
    assert_eq!(
        shown,
        [
            "0 s",
            "59 s",
            "1 min",
            "59 min",
            "1 h 0 min",
            "23 h 59 min",
            "1 d 0 h",
            "10 d 10 h"
        ]
    );
}
