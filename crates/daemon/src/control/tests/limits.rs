//! Limits that are changed while the daemon runs.

use super::*;

#[test]
fn an_adapters_limit_is_changed_by_patches() {
    let daemon = Daemon::start();
    daemon.post("/v1/portgroups", &json!({ "name": "blue" }));
    let request = json!({ "name": "vm1", "portgroup": "blue", "limit_out": "10gbit" });
    let (status, added) = daemon.post("/v1/adapters", &request);
    assert_eq!((status, &added["limit_out"]), (201, &json!("10gbit")));
    let patch = |body: &str| daemon.ask("PATCH", "/v1/adapters/vm1", body);
    let (status, changed) = patch(r#"{ "limit_out": "1500mbit" }"#);
    assert_eq!((status, &changed["limit_out"]), (200, &json!("1500mbit")));
    assert_eq!(patch("{}").1["limit_out"], json!("1500mbit"), "as it was");
    let (status, error) = patch(r#"{ "limit_out": "1kbit" }"#);
    assert_eq!(status, 400, "{error}");
    assert_eq!(
        patch(r#"{ "limit_out": null }"#).1["limit_out"],
        Value::Null
    );
    let (status, _) = daemon.ask("PATCH", "/v1/adapters/vm2", r#"{ "limit_out": "1gbit" }"#);
    assert_eq!(status, 404);
}
