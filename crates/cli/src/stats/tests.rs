use vrdma_api::{RdmaCounters, RegionCounts, Throttled};

use super::*;

fn idle() -> AdapterStats {
    AdapterStats {
        name: "vm2".parse().unwrap(),
        rdma: RdmaStats::default(),
        ethernet: EthernetStats::default(),
    }
}

pub(crate) fn busy() -> AdapterStats {
    AdapterStats {
        name: "vm1".parse().unwrap(),
        rdma: RdmaStats {
            guest_connected: true,
            processes: None,
            state: "active".to_owned(),
            driver_version: Some(20),
            gids: vec![
                "fe80::5054:ff:fe00:1".to_owned(),
                "::ffff:10.10.0.1".to_owned(),
            ],
            learned: vec!["10.10.0.1".parse().unwrap()],
            objects: ObjectCounts {
                uc: 1,
                pd: 2,
                mr: 3,
                cq: 4,
                qp: 5,
                srq: 6,
            },
            regions: None,
            listeners: 1,
            half_open_calls: 2,
            refused_calls: 3,
            throttled: Throttled { times: 2, us: 7500 },
            throttled_in: Throttled { times: 3, us: 4500 },
            counters: RdmaCounters {
                tx_messages: 1000,
                tx_bytes: 65_536_000,
                rx_messages: 999,
                rx_bytes: 64,
                retries: 3,
                naks_sent: 1,
                naks_received: 2,
                drops: [("unknown-qp".to_owned(), 7), ("malformed".to_owned(), 1)].into(),
            },
            log_lines_left_out: 4,
            fault: None,
        },
        ethernet: EthernetStats {
            connected: true,
            tx_frames: 12,
            tx_bytes: 1024,
            rx_frames: 10,
            rx_bytes: 1000,
            drops: [("congested".to_owned(), 2)].into(),
        },
    }
}

#[test]
fn all_adapters_in_one_table() {
    let mut idle = idle();
    idle.rdma.state = "reset".to_owned();
    insta::assert_snapshot!(all_text(&[busy(), idle]), @r#"
    ADAPTER  RDMA      QPS  MRS      SENT  RECEIVED  RETRIES  NAKS  DROPS  THROTTLED  ETH SENT  ETH RECEIVED  ETH DROPS
    vm1      active      5    3  62.5 MiB      64 B        3     3      8          5   1.0 KiB        1000 B          2
    vm2      no guest    0    0       0 B       0 B        0     0      0          0       0 B           0 B          0
    "#);
}

#[test]
fn what_users_have_of_their_quotas_is_below() {
    let usage = user::tests::usage();
    let text = with_users(all_text(&[busy()]), &usage);
    let expected = format!("{}\n\n{}", all_text(&[busy()]), user::list_text(&usage));
    assert_eq!(text, expected);
    assert!(text.contains("limit") && text.contains("4242"), "{text}");
    let nobody = Usage {
        users: Vec::new(),
        ..usage
    };
    assert_eq!(with_users("adapters".to_owned(), &nobody), "adapters");
}

#[test]
fn memory_of_programs_is_told_by_how_it_is_reached() {
    let mut stats = busy();
    stats.rdma.regions = Some(RegionCounts {
        mapped: 1,
        adopted: 2,
        adopted_in_part: 0,
        by_address: [("pinned pages".to_owned(), 3)].into(),
    });
    let rows = rdma(&stats.rdma);
    let (_, told) = rows.iter().find(|(name, _)| *name == "memory").unwrap();
    assert_eq!(told, "1 in files, 2 adopted, 3 by address (pinned pages)");
}

#[test]
fn one_adapter_in_full() {
    insta::assert_snapshot!(one_text(&busy()), @r#"
    adapter             vm1
    guest connected     yes
    device              active
    driver version      20
    GIDs                fe80::5054:ff:fe00:1 ::ffff:10.10.0.1
    learned             10.10.0.1
    objects             uc 1, pd 2, mr 3, cq 4, qp 5, srq 6
    RDMA sent           1000 messages, 62.5 MiB
    RDMA received       999 messages, 64 B
    retries             3
    NAKs                1 sent, 2 received
    RDMA drops          malformed 1, unknown-qp 7
    throttled           2 times, 7 ms
    throttled in        3 times, 4 ms
    rdma_cm services    1, 2 calls half open, 3 refused
    log lines left out  4
    Ethernet connected  yes
    Ethernet sent       12 frames, 1.0 KiB
    Ethernet received   10 frames, 1000 B
    Ethernet drops      congested 2
    "#);
}

#[test]
fn a_fault_is_shown() {
    let mut stats = idle();
    stats.rdma.fault = Some("memory is not shared".to_owned());
    insta::assert_snapshot!(one_text(&stats), @r#"
    adapter             vm2
    guest connected     no
    device              -
    driver version      unknown
    GIDs                -
    objects             uc 0, pd 0, mr 0, cq 0, qp 0, srq 0
    RDMA sent           0 messages, 0 B
    RDMA received       0 messages, 0 B
    retries             0
    NAKs                0 sent, 0 received
    RDMA drops          none
    fault               memory is not shared
    Ethernet connected  no
    Ethernet sent       0 frames, 0 B
    Ethernet received   0 frames, 0 B
    Ethernet drops      none
    "#);
}
