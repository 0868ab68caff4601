//! Adapters that go to another host, as far as a shard without devices lets them.

mod handing_over;

use vrdma_api::ArrivedContext;
use vrdma_pvrdma::{Context, Device, DeviceConfig};
use vrdma_verbs::object::Identity;
use vrdma_wire::Mac;

use super::*;

const MAC: &str = "52:54:00:00:00:01";

fn daemon() -> Daemon {
    with_adapter(Daemon::start())
}

fn with_adapter(daemon: Daemon) -> Daemon {
    daemon.post("/v1/portgroups", &json!({ "name": "blue" }));
    let request = json!({ "name": "vm1", "portgroup": "blue", "mac": MAC, "away": true });
    let (status, added) = daemon.post("/v1/adapters", &request);
    assert_eq!((status, &added["away"]), (201, &json!(true)));
    daemon
}

fn context(mac: [u8; 6]) -> Vec<u8> {
    let mac = Mac(mac);
    let config = DeviceConfig::new(Identity { mac, seed: 1 });
    let mut device = Device::new(config, vrdma_memory::Space::new().into()).unwrap();
    let (records, pages) = (device.freeze(), Vec::new());
    Context {
        mac,
        records,
        pages,
    }
    .encode()
}

fn put(daemon: &Daemon, bytes: Vec<u8>) -> Result<ArrivedContext, String> {
    let client = daemon.client();
    let answer = client.ask("PUT".parse().unwrap(), "/v1/adapters/vm1/context", bytes);
    match answer {
        Ok(answer) => Ok(serde_json::from_slice(&answer.body).unwrap()),
        Err(Error::Refused { sentence, .. }) => Err(sentence),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_context_is_kept_if_it_is_the_adapters() {
    let daemon = daemon();
    let own = [0x52, 0x54, 0, 0, 0, 1];
    let arrived = put(&daemon, context(own)).unwrap();
    assert_eq!((arrived.records, arrived.pages), (1, 0));
    assert_eq!(arrived.config_space[..4], [0xad, 0x15, 0x20, 8]);
    let mut damaged = context(own);
    *damaged.last_mut().unwrap() ^= 1;
    for (bytes, sentence) in [
        (damaged, "digest"),
        (context([2; 6]), "52:54:00:00:00:01: give both the same"),
        (b"anything".to_vec(), "not the context of an adapter"),
    ] {
        let error = put(&daemon, bytes).unwrap_err();
        assert!(error.contains(sentence), "{error}");
    }
    // The context is there, and nothing that could go on with it.
    let (status, sentence) = daemon.refused("GET", "/v1/adapters/vm1/context", "");
    assert_eq!(status, 409);
    assert!(!sentence.contains("no context"), "{sentence}");
    let (status, _) = daemon.ask("DELETE", "/v1/adapters/vm1/context", "");
    assert_eq!(status, 204);
    let (status, sentence) = daemon.refused("GET", "/v1/adapters/vm1/context", "");
    assert_eq!(status, 409);
    assert!(sentence.starts_with("no context has come"), "{sentence}");
    let (status, sentence) = daemon.refused("POST", "/v1/adapters/vm1/restore", "{}");
    assert_eq!(status, 409);
    assert!(
        sentence.starts_with("no context has come for adapter vm1"),
        "{sentence}"
    );
}

#[test]
fn what_a_state_does_not_allow_is_refused() {
    let daemon = daemon();
    for action in [
        "track", "freeze", "resend", "save", "thaw", "release", "activate",
    ] {
        let (status, _) = daemon.refused("POST", &format!("/v1/adapters/vm1/{action}"), "");
        assert_eq!(status, 409, "{action}");
        let (status, _) = daemon.refused("POST", &format!("/v1/adapters/vm2/{action}"), "");
        assert_eq!(status, 404, "{action}");
    }
    let away = json!({ "name": "p", "portgroup": "blue", "kind": "process", "away": true });
    let (status, refused) = daemon.post("/v1/adapters", &away);
    assert_eq!(status, 400, "{refused}");
}
