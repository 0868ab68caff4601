//! Changes that requests made to the configuration are there again after a crash and after an upgrade.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use vrdma_api::{Adapter, AdapterChange, PortGroup, PortGroupRequest, paths};
use vrdma_api_client::Client;

use super::upgrade::Daemon;

impl Daemon {
    fn client(&self) -> Client {
        Client::new(self.place.path("run").join(paths::SOCKET_FILE)).unwrap()
    }

    /// Kills the worker, as a crash does, and waits for the next one.
    fn crash(&self) {
        let keeper = self.running.0.id();
        let children = format!("/proc/{keeper}/task/{keeper}/children");
        let children = fs::read_to_string(children).unwrap();
        let worker = children.split_ascii_whitespace().next().unwrap();
        let worker = Pid::from_raw(worker.parse().unwrap()).unwrap();
        kill_process(worker, Signal::KILL).unwrap();
        self.wait_until_ready();
    }

    fn upgrade(&self) {
        self.hang_up();
        self.wait_until_ready();
    }

    fn wait_until_ready(&self) {
        while !self.supervisor.hear().starts_with("READY=1") {}
    }
}

/// Returns adapters and port groups as the API reports them.
fn told(client: &Client) -> (Vec<Adapter>, Vec<PortGroup>) {
    let adapters = client.get(paths::ADAPTERS).unwrap();
    (adapters, client.get(paths::PORTGROUPS).unwrap())
}

fn parsed<T: for<'a> serde::Deserialize<'a>>(json: &str) -> T {
    serde_json::from_str(json).unwrap()
}

#[test]
fn what_requests_changed_is_there_after_a_crash_and_an_upgrade() {
    let kept = Daemon::start();
    let client = kept.client();
    let red: PortGroupRequest = parsed(r#"{ "name": "red", "limit_in": "1gbit" }"#);
    let _: PortGroup = client.post(paths::PORTGROUPS, &red).unwrap();
    for name in ["c1", "c2"] {
        let adapter = format!(r#"{{ "name": "{name}", "portgroup": "red", "kind": "process" }}"#);
        let adapter: vrdma_api::AdapterRequest = parsed(&adapter);
        let _: Adapter = client.post(paths::ADAPTERS, &adapter).unwrap();
    }
    let change: AdapterChange = parsed(r#"{ "weight": 3, "limit_out": "2gbit" }"#);
    for name in ["c2", "vm1"] {
        let path = paths::adapter(&name.parse().unwrap());
        let _: Adapter = client.patch(&path, &change).unwrap();
    }
    let before = told(&client);
    assert_eq!(before.0.len(), 3);
    kept.crash();
    assert_eq!(told(&client), before);
    client
        .delete(&paths::adapter(&"c1".parse().unwrap()))
        .unwrap();
    client
        .delete(&paths::adapter(&"vm1".parse().unwrap()))
        .unwrap();
    let before = told(&client);
    kept.upgrade();
    assert_eq!(told(&client), before);
    let names: Vec<_> = before.0.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["c2"]);
}

/// Held adapters are like those of `vrdma run`.
#[test]
fn an_adapter_that_somebody_holds_goes_with_its_holder_after_a_crash_too() {
    let kept = Daemon::start();
    let client = kept.client();
    let name: vrdma_api::Name = "run-1".parse().unwrap();
    let request: vrdma_api::AdapterRequest =
        parsed(r#"{ "name": "run-1", "portgroup": "blue", "kind": "process" }"#);
    let _: Adapter = client.post(paths::ADAPTERS, &request).unwrap();
    let hold = client.hold(&name).unwrap();
    for goes_on in [Daemon::crash, Daemon::upgrade] {
        goes_on(&kept);
        let _: Adapter = client.get(&paths::adapter(&name)).unwrap();
    }
    drop(hold);
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while client.get::<Adapter>(&paths::adapter(&name)).is_ok() {
        assert!(std::time::Instant::now() < patience, "it stays");
    }
    kept.crash();
    assert!(client.get::<Adapter>(&paths::adapter(&name)).is_err());
}
