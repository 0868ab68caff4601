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

#[test]
fn every_limit_is_changed_alone_and_a_wrong_one_changes_nothing() {
    let daemon = Daemon::start();
    daemon.post("/v1/portgroups", &json!({ "name": "blue" }));
    daemon.post(
        "/v1/adapters",
        &json!({ "name": "vm1", "portgroup": "blue" }),
    );
    let keys = [
        ("limit_out", "1gbit"),
        ("limit_in", "2gbit"),
        ("limit_out_ops", "100k"),
        ("limit_in_ops", "200k"),
        ("guarantee_out", "500mbit"),
        ("guarantee_in", "600mbit"),
        ("guarantee_out_ops", "50k"),
        ("guarantee_in_ops", "60k"),
    ];
    for path in ["/v1/adapters/vm1", "/v1/portgroups/blue"] {
        for (key, value) in keys {
            let (status, changed) = daemon.ask("PATCH", path, &json!({ key: value }).to_string());
            assert_eq!((status, &changed[key]), (200, &json!(value)), "{path}");
        }
        let before = daemon.ask("GET", path, "").1;
        for (wrong, sentence) in [
            (
                json!({ "limit_in": "2gbit", "limit_out": 0 }),
                "0bit is too little",
            ),
            (
                json!({ "limit_in": null, "limit_in_ops": "3" }),
                "3 messages a second are too few",
            ),
            (
                json!({ "limit_in": null, "limit_both": "1gbit" }),
                "limit_both",
            ),
        ] {
            let (status, error) = daemon.ask("PATCH", path, &wrong.to_string());
            let error = error["error"].as_str().unwrap();
            assert!(status == 400 && error.contains(sentence), "{error}");
        }
        assert_eq!(daemon.ask("GET", path, "").1, before, "nothing changed");
    }
    let (status, _) = daemon.ask("PATCH", "/v1/portgroups/red", "{}");
    assert_eq!(status, 404);
}

#[test]
fn weights_are_changed_by_patches_and_a_wrong_one_changes_nothing() {
    let daemon = Daemon::start();
    let group = json!({ "name": "blue", "weight": 5 });
    assert_eq!(daemon.post("/v1/portgroups", &group).1["weight"], json!(5));
    let adapter = json!({ "name": "vm1", "portgroup": "blue", "weight": 5 });
    assert_eq!(daemon.post("/v1/adapters", &adapter).1["weight"], json!(5));
    for path in ["/v1/adapters/vm1", "/v1/portgroups/blue"] {
        let patch = |change: Value| daemon.ask("PATCH", path, &change.to_string());
        assert_eq!(patch(json!({ "weight": 3 })).1["weight"], json!(3));
        let sentence = "the request is wrong: 0 is not a weight: use a whole number from 1 to 100";
        let refused = (400, json!({ "error": sentence }));
        let wrong = json!({ "weight": 0, "limit_out": "1gbit" });
        assert_eq!(patch(wrong), refused, "{path}");
        for weight in [json!(101), json!(-1), json!(1.5), json!("heavy"), json!([])] {
            assert_eq!(patch(json!({ "weight": weight })).0, 400, "{weight}");
        }
        let shown = daemon.ask("GET", path, "").1;
        let expected = (&json!(3), &Value::Null);
        assert_eq!((&shown["weight"], &shown["limit_out"]), expected, "{path}");
        assert_eq!(patch(json!({ "limit_out": "1gbit" })).1["weight"], json!(3));
    }
    let wrong = json!({ "name": "red", "weight": 0 });
    assert_eq!(daemon.post("/v1/portgroups", &wrong).0, 400);
    assert_eq!(daemon.ask("GET", "/v1/portgroups/red", "").0, 404);
}

#[test]
fn no_guarantee_is_above_its_limit() {
    let daemon = Daemon::start();
    let wrong = json!({ "name": "blue", "limit_out": "1gbit", "guarantee_out": "2gbit" });
    let (status, error) = daemon.post("/v1/portgroups", &wrong);
    let sentence = "a guarantee of 2gbit is more than limit_out, 1gbit, lets pass; lower guarantee_out or raise limit_out";
    let refused = json!({ "error": sentence });
    assert_eq!((status, &error), (400, &refused));
    daemon.post("/v1/portgroups", &json!({ "name": "blue" }));
    let adapter = json!({ "name": "vm1", "portgroup": "blue", "guarantee_out": "2gbit" });
    let mut wrong = adapter.clone();
    wrong["limit_out"] = json!("1gbit");
    let (status, error) = daemon.post("/v1/adapters", &wrong);
    assert_eq!((status, &error), (400, &refused));
    let (status, added) = daemon.post("/v1/adapters", &adapter);
    assert_eq!((status, &added["guarantee_out"]), (201, &json!("2gbit")));
    for path in ["/v1/adapters/vm1", "/v1/portgroups/blue"] {
        let patch = |change: Value| daemon.ask("PATCH", path, &change.to_string());
        let (status, changed) = patch(json!({ "limit_out": "2gbit", "guarantee_out": "2gbit" }));
        assert_eq!((status, &changed["guarantee_out"]), (200, &json!("2gbit")));
        let lower = json!({ "limit_out": "1gbit", "weight": 9 });
        assert_eq!(patch(lower), (400, refused.clone()), "{path}");
        let shown = daemon.ask("GET", path, "").1;
        let unchanged = (&json!("2gbit"), &Value::Null);
        assert_eq!((&shown["limit_out"], &shown["weight"]), unchanged, "{path}");
        let lower = json!({ "limit_out": "1gbit", "guarantee_out": null });
        assert_eq!(patch(lower).1["guarantee_out"], Value::Null);
        for (limit, guarantee, low, high) in [
            ("limit_in", "guarantee_in", "1gbit", "2gbit"),
            ("limit_out_ops", "guarantee_out_ops", "5k", "6k"),
            ("limit_in_ops", "guarantee_in_ops", "5k", "6k"),
        ] {
            let sentence = format!(
                "a guarantee of {high} is more than {limit}, {low}, lets pass; lower {guarantee} or raise {limit}"
            );
            let (status, error) = patch(json!({ limit: low, guarantee: high }));
            assert_eq!((status, &error["error"]), (400, &json!(sentence)), "{path}");
            assert_eq!(patch(json!({ limit: high, guarantee: high })).0, 200);
        }
    }
}
