//! A query does not wait for a change that is under way.

use vrdma_shard::plane::ShardCommand;

use super::*;

/// Queries the API from the shard's thread while the shard has not answered. A query that waited for the change would
/// be answered only after the change was given up.
fn asks_amid(
    is_it: fn(&ShardCommand) -> bool,
    sender: std::sync::mpsc::Sender<Vec<Value>>,
) -> Daemon {
    Daemon::start_with(move |client| {
        move |command: &ShardCommand| {
            if is_it(command) {
                let paths = ["/v1/adapters", "/v1/portgroups"];
                let told = paths.map(|path| client.get::<Value>(path).unwrap());
                sender.send(told.into()).unwrap();
            }
        }
    })
}

#[test]
fn a_list_is_answered_while_an_adapter_is_added_and_has_it_afterwards() {
    let (sender, told) = std::sync::mpsc::channel();
    let daemon = asks_amid(
        |command| matches!(command, ShardCommand::AddAdapter(..)),
        sender,
    );
    daemon.post("/v1/portgroups", &json!({ "name": "blue" }));
    let request = json!({ "name": "vm1", "portgroup": "blue" });
    assert_eq!(daemon.post("/v1/adapters", &request).0, 201);
    let told = told.try_recv().unwrap();
    assert_eq!(told[0], json!([]), "what is shown works");
    assert_eq!(told[1][0]["adapters"], json!([]));
    let (_, adapters) = daemon.ask("GET", "/v1/adapters", "");
    assert_eq!(adapters[0]["name"], "vm1");
}

#[test]
fn a_list_is_answered_while_an_adapter_is_changed_or_removed() {
    let (sender, told) = std::sync::mpsc::channel();
    let is_it = |command: &ShardCommand| {
        matches!(
            command,
            ShardCommand::Keep(..) | ShardCommand::RemoveAdapter(..)
        )
    };
    let daemon = asks_amid(is_it, sender);
    daemon.post("/v1/portgroups", &json!({ "name": "blue" }));
    let request = json!({ "name": "vm1", "portgroup": "blue" });
    daemon.post("/v1/adapters", &request);
    let change = r#"{ "ip": "10.0.0.5" }"#;
    assert_eq!(daemon.ask("PATCH", "/v1/adapters/vm1", change).0, 200);
    assert_eq!(told.try_recv().unwrap()[0][0]["ip"], Value::Null);
    assert_eq!(daemon.ask("DELETE", "/v1/adapters/vm1", "").0, 204);
    assert_eq!(told.try_recv().unwrap()[0][0]["ip"], "10.0.0.5");
}
