//! The adapters of the tests, and how many shards serve them.

use std::path::Path;

use vrdma_inventory::AdapterSpec;
use vrdma_inventory::Inventory;

/// Number of shards that serve the adapters: the tests are run with one and with several.
pub(crate) fn shards() -> u16 {
    let given = std::env::var("VRDMA_TEST_SHARDS");
    given.map_or(1, |count| count.parse().unwrap())
}

/// Describes adapters of processes `c0`, `c1`, … in one port group, at 10.0.0.1, 10.0.0.2, …
pub(crate) fn specs(count: u8, folder: &Path) -> Vec<AdapterSpec> {
    use vrdma_api::Origin::Config;
    let mut inventory = Inventory::new(folder, 1);
    let group = serde_json::from_str(r#"{ "name": "blue" }"#).unwrap();
    inventory.add_portgroup(&group, Config).unwrap();
    let request = |number: u8| {
        serde_json::from_value(serde_json::json!({
            "name": format!("c{number}"), "portgroup": "blue", "kind": "process",
            "ip": format!("10.0.0.{}", number + 1),
        }))
    };
    let mut add = |number| {
        inventory
            .add_adapter(&request(number).unwrap(), Config)
            .unwrap()
    };
    (0..count).map(&mut add).collect()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().unwrap().block_on(future)
}
