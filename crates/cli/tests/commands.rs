//! The program against a daemon whose answers are given by the test.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc::channel;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::runtime::Builder;

/// A daemon that gives each request the same answer, and has no users.
struct Daemon {
    status: StatusCode,
    body: String,
}

impl Daemon {
    fn answering(status: u16, body: impl ToString) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap(),
            body: body.to_string(),
        }
    }

    /// Runs the program; returns its output and the request that it made.
    fn run(self, arguments: &[&str]) -> (Output, String) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let (asking, asked) = channel();
        let answer = (self.status, self.body);
        let router =
            Router::new().fallback(async move |method: Method, path: Uri, body: String| {
                let request = format!("{method} {path} {body}");
                asking.send(request.trim_end().to_owned()).unwrap();
                match path.path() {
                    "/v1/users" => (StatusCode::OK, r#"{"users":[],"all":[]}"#.to_owned()),
                    _ => answer,
                }
            });
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let output = runtime.block_on(async {
            let server = axum::serve(UnixListener::bind(&socket).unwrap(), router).into_future();
            tokio::select! {
                ended = server => panic!("the server ended: {ended:?}"),
                output = tokio::task::spawn_blocking(move || vrdma(&socket, &arguments)) => output,
            }
        });
        let asked: Vec<String> = asked.try_iter().collect();
        (output.unwrap(), asked.join(", "))
    }
}

fn vrdma(socket: &Path, arguments: &[impl AsRef<OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vrdma"));
    command
        .args(arguments)
        .env("VRDMA_CONTROL", socket)
        .env("VRDMA_SOCKET", "/nonexistent")
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn adapter() -> Value {
    json!({
        "name": "vm1", "portgroup": "blue", "mac": "52:54:00:00:00:01", "doorbells": "mapped",
        "origin": "runtime", "vfio_user_socket": "/r/vm1.vfio-user", "ethernet_socket": "/r/vm1.ethernet",
        "a field of a later release": 1,
    })
}

fn uplink() -> Value {
    let roce = json!({
        "tx_frames": 1, "tx_bytes": 1536, "rx_frames": 0, "rx_bytes": 0,
        "drops": { "icrc": 2, "unknown-adapter": 1 },
    });
    json!({
        "name": "up0", "kind": "tunnel", "listen": "192.0.2.1:4789", "origin": "config", "mtu": 1450, "peers": ["192.0.2.2:4789"],
        "stats": { "roce": roce, "ethernet": { "tx_frames": 0, "tx_bytes": 0, "rx_frames": 0, "rx_bytes": 0 } },
    })
}

fn group() -> Value {
    json!({ "name": "blue", "vlan": 10, "origin": "config", "adapters": ["vm1"] })
}

/// A command line, the requests that it makes, and the daemon's answer to them.
struct Case {
    command: &'static str,
    request: &'static str,
    answer: Value,
}

/// Runs commands, which make these requests and succeed with the daemon's answer.
fn run_all(cases: impl IntoIterator<Item = Case>) {
    for case in cases {
        let command = case.command;
        let arguments: Vec<&str> = command.split(' ').collect();
        let (output, asked) = Daemon::answering(200, case.answer).run(&arguments);
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        assert_eq!(asked, case.request, "{command}");
    }
}

#[test]
fn commands_on_port_groups_ask_for_what_they_are() {
    run_all([
        Case {
            command: "portgroup add blue",
            request: r#"POST /v1/portgroups {"name":"blue"}"#,
            answer: group(),
        },
        Case {
            command: "portgroup add blue --vlan 10",
            request: r#"POST /v1/portgroups {"name":"blue","vlan":10}"#,
            answer: group(),
        },
        Case {
            command: "portgroup add blue --vni 5000",
            request: r#"POST /v1/portgroups {"name":"blue","vni":5000}"#,
            answer: group(),
        },
        Case {
            command: "portgroup list",
            request: "GET /v1/portgroups",
            answer: json!([group()]),
        },
        Case {
            command: "portgroup remove blue",
            request: "DELETE /v1/portgroups/blue",
            answer: Value::Null,
        },
    ]);
}

#[test]
fn commands_on_adapters_ask_for_what_they_are() {
    run_all([
        Case {
            command: "adapter add vm1 --portgroup blue",
            request: r#"POST /v1/adapters {"name":"vm1","portgroup":"blue","doorbells":"mapped","kind":"vm"}"#,
            answer: adapter(),
        },
        Case {
            command: "adapter add vm1 --portgroup blue --mac 52:54:00:00:00:0A --doorbells trapped",
            request: r#"POST /v1/adapters {"name":"vm1","portgroup":"blue","mac":"52:54:00:00:00:0a","doorbells":"trapped","kind":"vm"}"#,
            answer: adapter(),
        },
        Case {
            command: "adapter list",
            request: "GET /v1/adapters",
            answer: json!([adapter()]),
        },
        Case {
            command: "adapter show vm1",
            request: "GET /v1/adapters/vm1",
            answer: adapter(),
        },
        Case {
            command: "adapter remove vm1",
            request: "DELETE /v1/adapters/vm1",
            answer: Value::Null,
        },
        Case {
            command: "adapter qemu-args vm1",
            request: "GET /v1/adapters/vm1",
            answer: adapter(),
        },
        Case {
            command: "adapter libvirt-xml vm1",
            request: "GET /v1/adapters/vm1",
            answer: adapter(),
        },
        Case {
            command: "stats",
            request: "GET /v1/stats, GET /v1/users",
            answer: json!([]),
        },
    ]);
}

#[test]
fn commands_on_uplinks_and_peers_ask_for_what_they_are() {
    run_all([
        Case {
            command: "uplink add up0 --listen 192.0.2.1",
            request: r#"POST /v1/uplinks {"name":"up0","kind":"tunnel","listen":"192.0.2.1:4789"}"#,
            answer: uplink(),
        },
        Case {
            command: "uplink add up0 --interface eth1 --faults loss=1%",
            request: r#"POST /v1/uplinks {"name":"up0","kind":"raw","interface":"eth1","faults":"loss=1%"}"#,
            answer: uplink(),
        },
        Case {
            command: "uplink list",
            request: "GET /v1/uplinks",
            answer: json!([uplink()]),
        },
        Case {
            command: "uplink show up0",
            request: "GET /v1/uplinks/up0",
            answer: uplink(),
        },
        Case {
            command: "uplink remove up0",
            request: "DELETE /v1/uplinks/up0",
            answer: Value::Null,
        },
        Case {
            command: "peer add 192.0.2.2 --uplink up0",
            request: r#"POST /v1/peers {"uplink":"up0","address":"192.0.2.2:4789"}"#,
            answer: json!({ "uplink": "up0", "address": "192.0.2.2:4789", "origin": "runtime" }),
        },
        Case {
            command: "peer list",
            request: "GET /v1/peers",
            answer: json!([]),
        },
        Case {
            command: "peer remove 2001:db8::2 --uplink up0",
            request: "DELETE /v1/uplinks/up0/peers/[2001:db8::2]:4789",
            answer: Value::Null,
        },
    ]);
}

#[test]
fn lists_are_tables() {
    let (output, _) = Daemon::answering(200, json!([adapter()])).run(&["adapter", "list"]);
    insta::assert_snapshot!(stdout(&output), @r#"
    ADAPTER  PORT GROUP  KIND  MAC                IP  USERS  FROM
    vm1      blue        vm    52:54:00:00:00:01  -   -      runtime
    "#);
    let (output, _) = Daemon::answering(200, json!([group()])).run(&["portgroup", "list"]);
    insta::assert_snapshot!(stdout(&output), @r#"
    PORT GROUP  VLAN  VNI  FROM    ADAPTERS
    blue          10   10  config  vm1
    "#);
    let (output, _) = Daemon::answering(200, json!([uplink()])).run(&["uplink", "list"]);
    insta::assert_snapshot!(stdout(&output), @r#"
    UPLINK  KIND    AT               MTU  PEERS  FROM    ROCE SENT  ROCE RECEIVED  ROCE DROPS  ETH SENT  ETH RECEIVED  ETH DROPS
    up0     tunnel  192.0.2.1:4789  1450      1  config    1.5 KiB            0 B           3       0 B           0 B          0
    "#);
    let (output, _) = Daemon::answering(200, uplink()).run(&["uplink", "show", "up0"]);
    insta::assert_snapshot!(stdout(&output), @r#"
    uplink             up0
    kind               tunnel
    at                 192.0.2.1:4789
    MTU                1450
    from               config
    peers              192.0.2.2:4789
    RoCE sent          1 frames, 1.5 KiB
    RoCE received      0 frames, 0 B
    RoCE drops         icrc 2, unknown-adapter 1
    Ethernet sent      0 frames, 0 B
    Ethernet received  0 frames, 0 B
    Ethernet drops     none
    "#);
    let (output, _) = Daemon::answering(200, adapter()).run(&["adapter", "show", "vm1"]);
    insta::assert_snapshot!(stdout(&output), @r#"
    adapter           vm1
    port group        blue
    kind              vm
    MAC               52:54:00:00:00:01
    users             -
    from              runtime
    doorbells         mapped
    vfio-user socket  /r/vm1.vfio-user
    Ethernet socket   /r/vm1.ethernet
    "#);
}

#[test]
fn json_has_the_shapes_of_the_api() {
    let (output, _) =
        Daemon::answering(200, json!([adapter()])).run(&["adapter", "list", "--json"]);
    insta::assert_snapshot!(stdout(&output), @r#"
    [
      {
        "name": "vm1",
        "portgroup": "blue",
        "mac": "52:54:00:00:00:01",
        "doorbells": "mapped",
        "origin": "runtime",
        "kind": "vm",
        "vfio_user_socket": "/r/vm1.vfio-user",
        "ethernet_socket": "/r/vm1.ethernet"
      }
    ]
    "#);
    let (output, _) = Daemon::answering(204, "").run(&["--json", "adapter", "remove", "vm1"]);
    insta::assert_snapshot!(stdout(&output), @r#"
    {
      "removed": "vm1"
    }
    "#);
}

#[test]
fn qemu_args_as_json_are_a_list_of_words() {
    let arguments = [
        "adapter",
        "qemu-args",
        "vm1",
        "--memory",
        "512M",
        "--slot",
        "31",
    ];
    let output = vrdma(Path::new("/nonexistent"), &arguments);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let arguments = [
        "adapter",
        "qemu-args",
        "vm1",
        "--memory",
        "512M",
        "--slot",
        "10",
        "--json",
    ];
    let (output, _) = Daemon::answering(200, adapter()).run(&arguments);
    let words: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(words[..2], ["-m", "512M"]);
    assert!(words.contains(
        &"vmxnet3,netdev=vrdma-vm1,mac=52:54:00:00:00:01,addr=a.0,multifunction=on".to_owned()
    ));
}

#[test]
fn a_refusal_is_passed_on() {
    let refusal = json!({ "error": "there is no adapter \"vm9\"" });
    let (output, _) = Daemon::answering(404, &refusal).run(&["adapter", "show", "vm9"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "vrdma: there is no adapter \"vm9\"\n");
    let (output, _) = Daemon::answering(404, &refusal).run(&["adapter", "show", "vm9", "--json"]);
    assert_eq!(
        serde_json::from_slice::<Value>(&output.stderr).unwrap(),
        refusal
    );
    assert_eq!(stdout(&output), "");
}

#[test]
fn strangers_are_recognised() {
    for (status, body) in [(200, "<html>"), (500, "no json"), (200, "{}")] {
        let (output, _) = Daemon::answering(status, body).run(&["adapter", "show", "vm1"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr(&output).contains("is it the control socket of a vrdmad"),
            "{}",
            stderr(&output)
        );
    }
}
