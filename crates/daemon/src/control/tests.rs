//! The API over a real socket, with real Ethernet and a shard without devices.

mod addresses;
mod hold;
mod limits;
mod migration;
mod people;
mod reading;
mod refusals;
mod stage;

use std::io::Write;
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use vrdma_api::{AdapterStats, Status};
use vrdma_api_client::Error;

use stage::Daemon;

fn with_blue() -> Daemon {
    let daemon = Daemon::start();
    assert_eq!(
        daemon
            .post("/v1/portgroups", &json!({"name": "blue", "vlan": 10}))
            .0,
        201
    );
    daemon
}

#[test]
fn an_adapter_comes_and_goes_with_its_socket() {
    let daemon = with_blue();
    let (status, added) = daemon.post("/v1/adapters", &json!({"name": "vm1", "portgroup": "blue"}));
    assert_eq!((status, &added["origin"]), (201, &json!("runtime")));
    let socket = daemon.path("vm1.ethernet");
    assert_eq!(added["ethernet_socket"], json!(socket));
    assert!(socket.exists());
    assert_eq!(
        daemon.ask("GET", "/v1/adapters/vm1", ""),
        (200, added.clone())
    );
    assert_eq!(daemon.ask("GET", "/v1/adapters", ""), (200, json!([added])));
    assert_eq!(
        daemon.ask("DELETE", "/v1/adapters/vm1", ""),
        (204, Value::Null)
    );
    assert!(!socket.exists());
    assert_eq!(daemon.ask("GET", "/v1/adapters", ""), (200, json!([])));
}

#[test]
fn a_port_group_knows_its_adapters() {
    let daemon = with_blue();
    daemon.post("/v1/adapters", &json!({"name": "vm1", "portgroup": "blue"}));
    let never = json!({ "times": 0, "us": 0 });
    let blue = json!({
        "name": "blue", "vlan": 10, "origin": "runtime", "adapters": ["vm1"],
        "throttled": never, "throttled_in": never, "over_limit": 0,
        "drops": { "rdma": {}, "ethernet": {} },
    });
    assert_eq!(daemon.ask("GET", "/v1/portgroups/blue", ""), (200, blue));
    assert_eq!(daemon.ask("DELETE", "/v1/portgroups/blue", "").0, 409);
    daemon.ask("DELETE", "/v1/adapters/vm1", "");
    assert_eq!(daemon.ask("DELETE", "/v1/portgroups/blue", "").0, 204);
    assert_eq!(daemon.ask("GET", "/v1/portgroups", ""), (200, json!([])));
}

#[test]
fn status_and_stats_list_every_adapter() {
    let daemon = with_blue();
    for name in ["vm2", "vm1"] {
        daemon.post("/v1/adapters", &json!({"name": name, "portgroup": "blue"}));
    }
    let (_, status) = daemon.ask("GET", "/v1/status", "");
    let status: Status = serde_json::from_value(status).unwrap();
    let names = |stats: &[AdapterStats]| {
        stats
            .iter()
            .map(|stats| stats.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&status.stats), ["vm1", "vm2"]);
    assert_eq!(status.pid, std::process::id());
    let (_, stats) = daemon.ask("GET", "/v1/stats", "");
    let stats: Vec<AdapterStats> = serde_json::from_value(stats).unwrap();
    assert_eq!(stats, status.stats);
    assert_eq!(
        daemon.ask("GET", "/v1/adapters/vm2/stats", "").1["name"],
        "vm2"
    );
}

#[test]
fn a_huge_body_is_refused() {
    let daemon = Daemon::start();
    let body = "x".repeat(70_000);
    let answer = daemon.raw(&format!(
        "POST /v1/adapters HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 70000\r\n\r\n{body}"
    ));
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[test]
fn a_path_in_the_way_of_an_adapter_is_named_and_kept() {
    let daemon = with_blue();
    let path = daemon.path("vm1.ethernet");
    std::fs::write(&path, "precious").unwrap();
    let (status, sentence) = daemon.refused(
        "POST",
        "/v1/adapters",
        r#"{"name":"vm1","portgroup":"blue"}"#,
    );
    assert_eq!(status, 500);
    assert!(sentence.contains("is not a socket"), "{sentence}");
    assert_eq!(daemon.ask("GET", "/v1/adapters", "").1, json!([]));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        daemon
            .post("/v1/adapters", &json!({"name": "vm1", "portgroup": "blue"}))
            .0,
        201
    );
}

#[test]
fn a_client_that_says_nothing_does_not_hold_up_others() {
    let daemon = Daemon::start();
    let _silent = UnixStream::connect(daemon.path("api")).unwrap();
    assert_eq!(daemon.ask("GET", "/v1/status", "").0, 200);
}
