//! The addresses that a VM's guest may use, as requests set them.

use super::*;

#[test]
fn a_vm_is_kept_to_a_list_that_changes_while_it_runs() {
    let daemon = with_blue();
    let both = json!(["10.0.0.5", "fd00::5"]);
    let request = json!({ "name": "vm1", "portgroup": "blue", "ip": both });
    let (status, added) = daemon.post("/v1/adapters", &request);
    assert_eq!((status, &added["ip"]), (201, &both));
    let patch = |body: &str| daemon.ask("PATCH", "/v1/adapters/vm1", body);
    let (status, changed) = patch(r#"{ "ip": ["10.0.0.6"] }"#);
    assert_eq!((status, &changed["ip"]), (200, &json!("10.0.0.6")));
    let (_, changed) = patch(r#"{ "weight": 2 }"#);
    assert_eq!(changed["ip"], "10.0.0.6", "what is not named stays");
    let (status, changed) = patch(r#"{ "ip": "learn" }"#);
    assert_eq!((status, &changed["ip"]), (200, &json!("learn")));
    let (_, changed) = patch(r#"{ "ip": [] }"#);
    assert_eq!(changed["ip"], Value::Null);
}

#[test]
fn addresses_that_do_not_do_change_nothing() {
    let daemon = with_blue();
    for (name, ip) in [("vm1", "10.0.0.5"), ("vm2", "10.0.0.6")] {
        let request = json!({ "name": name, "portgroup": "blue", "ip": ip });
        assert_eq!(daemon.post("/v1/adapters", &request).0, 201);
    }
    let refused = |body: &str| daemon.refused("PATCH", "/v1/adapters/vm1", body);
    let (status, sentence) = refused(r#"{ "weight": 7, "ip": ["10.0.0.5", "10.0.0.6"] }"#);
    assert_eq!(status, 409);
    assert_eq!(
        sentence,
        "the address 10.0.0.6 belongs to the adapter \"vm2\" of that port group already; choose another"
    );
    let wrong = r#"{ "ip": ["10.0.0.7"], "users": ["no-such-user"] }"#;
    assert_eq!(refused(wrong).0, 400);
    let (status, sentence) = refused(r#"{ "ip": ["10.0.0.7", "learn"] }"#);
    assert_eq!(status, 400);
    assert!(
        sentence.contains("\"learn\" stands alone: write it without brackets"),
        "{sentence}"
    );
    let (_, shown) = daemon.ask("GET", "/v1/adapters/vm1", "");
    assert_eq!(
        (&shown["ip"], &shown["weight"]),
        (&json!("10.0.0.5"), &Value::Null)
    );
}
