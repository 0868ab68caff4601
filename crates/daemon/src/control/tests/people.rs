//! Users and groups that may use adapters, as requests name them.

use super::*;

#[test]
fn users_are_those_of_the_port_group_until_an_adapter_names_its_own() {
    let daemon = Daemon::start();
    let group = json!({ "name": "blue", "users": ["root", 1001], "groups": ["root"] });
    let (status, added) = daemon.post("/v1/portgroups", &group);
    assert_eq!((status, &added["users"]), (201, &json!(["root", "1001"])));
    let request = json!({ "name": "vm1", "portgroup": "blue" });
    let (_, added) = daemon.post("/v1/adapters", &request);
    let list = |it: &Value| it.as_array().cloned().unwrap_or_default().into();
    let shown = |it: &Value| -> (Value, Value) { (list(&it["users"]), list(&it["groups"])) };
    assert_eq!(shown(&added), (json!(["root", "1001"]), json!(["root"])));
    let patch = |body: &str| daemon.ask("PATCH", "/v1/adapters/vm1", body);
    let (status, changed) = patch(r#"{ "users": [4242] }"#);
    assert_eq!(
        (status, shown(&changed)),
        (200, (json!(["4242"]), json!([])))
    );
    let (_, changed) = patch(r#"{ "groups": ["root"] }"#);
    assert_eq!(shown(&changed), (json!(["4242"]), json!(["root"])));
    assert_eq!(shown(&patch("{}").1), (json!(["4242"]), json!(["root"])));
    let (_, changed) = patch(r#"{ "users": [], "groups": [] }"#);
    assert_eq!(shown(&changed), (json!(["root", "1001"]), json!(["root"])));
}

#[test]
fn a_user_that_is_not_there_changes_nothing() {
    let daemon = with_blue();
    let request = json!({ "name": "vm1", "portgroup": "blue", "users": ["no-such-user"] });
    let (status, error) = daemon.refused("POST", "/v1/adapters", &request.to_string());
    assert_eq!(status, 400);
    assert_eq!(
        error,
        "this host has no user \"no-such-user\"; correct the name or write the user's number"
    );
    daemon.post(
        "/v1/adapters",
        &json!({ "name": "vm1", "portgroup": "blue" }),
    );
    let wrong = r#"{ "limit_out": "1gbit", "groups": ["no-such-group"] }"#;
    assert_eq!(daemon.refused("PATCH", "/v1/adapters/vm1", wrong).0, 400);
    let (_, shown) = daemon.ask("GET", "/v1/adapters/vm1", "");
    assert_eq!(shown["limit_out"], Value::Null);
}
