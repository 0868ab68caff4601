//! Wrong requests: each is refused with one sentence, and changes nothing.

use serde_json::json;

use super::with_blue;

/// A wrong request, and its answer.
struct Case {
    /// Method and path.
    request: &'static str,
    body: &'static str,
    status: u16,
    /// A part of the sentence.
    sentence: &'static str,
}

/// Sends wrong requests to a daemon with the adapter `vm1` in the port group `blue`, which then has no other adapter.
fn refuse_all(cases: &[Case]) {
    let daemon = with_blue();
    daemon.post("/v1/adapters", &json!({"name": "vm1", "portgroup": "blue"}));
    for case in cases {
        let what = format!("{} {}", case.request, case.body);
        let (method, path) = case.request.split_once(' ').unwrap();
        let (status, sentence) = daemon.refused(method, path, case.body);
        assert_eq!(status, case.status, "{what}: {sentence}");
        assert!(sentence.contains(case.sentence), "{what}: {sentence}");
    }
    let (_, adapters) = daemon.ask("GET", "/v1/adapters", "");
    assert_eq!(adapters.as_array().unwrap().len(), 1);
}

#[test]
fn a_port_group_needs_a_name_and_a_vlan_of_its_own() {
    refuse_all(&[
        Case {
            request: "POST /v1/portgroups",
            body: r#"{"name":"blue"}"#,
            status: 409,
            sentence: "there is a port group \"blue\" already",
        },
        Case {
            request: "POST /v1/portgroups",
            body: r#"{"name":"a","vlan":5000}"#,
            status: 400,
            sentence: "5000 is not a VLAN",
        },
        Case {
            request: "POST /v1/portgroups",
            body: r#"{"name":"a","vlan":10}"#,
            status: 409,
            sentence: "VLAN 10 belongs to the port group \"blue\"",
        },
    ]);
}

#[test]
fn a_body_must_be_what_the_api_describes() {
    refuse_all(&[
        Case {
            request: "POST /v1/portgroups",
            body: r#"{"name":"a","colour":1}"#,
            status: 400,
            sentence: "unknown field `colour`",
        },
        Case {
            request: "POST /v1/portgroups",
            body: "{",
            status: 400,
            sentence: "the request is wrong: EOF",
        },
        Case {
            request: "POST /v1/portgroups",
            body: "",
            status: 400,
            sentence: "the request is wrong: EOF",
        },
    ]);
}

#[test]
fn an_adapter_needs_a_new_name_a_port_group_and_a_sound_mac_address() {
    refuse_all(&[
        Case {
            request: "POST /v1/adapters",
            body: r#"{"name":"vm1","portgroup":"blue"}"#,
            status: 409,
            sentence: "there is an adapter \"vm1\" already",
        },
        Case {
            request: "POST /v1/adapters",
            body: r#"{"name":"a","portgroup":"red"}"#,
            status: 404,
            sentence: "there is no port group \"red\"",
        },
        Case {
            request: "POST /v1/adapters",
            body: r#"{"name":"../a","portgroup":"blue"}"#,
            status: 400,
            sentence: "is not a name",
        },
        Case {
            request: "POST /v1/adapters",
            body: r#"{"name":"a","portgroup":"blue","mac":"x"}"#,
            status: 400,
            sentence: "is not a MAC address",
        },
    ]);
}

#[test]
fn what_is_not_there_is_neither_shown_nor_removed() {
    refuse_all(&[
        Case {
            request: "GET /v1/adapters/vm9",
            body: "",
            status: 404,
            sentence: "there is no adapter \"vm9\"",
        },
        Case {
            request: "GET /v1/adapters/vm9/stats",
            body: "",
            status: 404,
            sentence: "there is no adapter \"vm9\"",
        },
        Case {
            request: "DELETE /v1/adapters/vm9",
            body: "",
            status: 404,
            sentence: "there is no adapter \"vm9\"",
        },
        Case {
            request: "DELETE /v1/adapters/%00",
            body: "",
            status: 400,
            sentence: "is not a name",
        },
        Case {
            request: "DELETE /v1/portgroups/red",
            body: "",
            status: 404,
            sentence: "there is no port group \"red\"",
        },
    ]);
}

#[test]
fn other_paths_and_methods_are_unknown() {
    refuse_all(&[
        Case {
            request: "GET /",
            body: "",
            status: 404,
            sentence: "there is no such path",
        },
        Case {
            request: "PUT /v1/stats",
            body: "",
            status: 405,
            sentence: "does not take this method",
        },
    ]);
}
