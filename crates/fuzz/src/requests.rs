//! Bodies of the control API's requests, as a script: an accepted request does what it says, and a refused one changes
//! nothing.

use std::path::Path;

use serde::de::DeserializeOwned;
use vrdma_api::{
    AdapterChange, AdapterRequest, MoveRequest, Name, Origin, PeerRequest, PortGroupChange,
    PortGroupRequest, UplinkRequest,
};
use vrdma_inventory::{Inventory, Refusal};

use crate::configuration::told;
use crate::input::Input;

/// Most requests of a script.
const STEPS_MAX: usize = 16;
const SHARDS: u16 = 2;

/// Runs an input as a script.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut inventory = Inventory::new(Path::new("/run/vrdma-fuzz"), SHARDS);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            return;
        }
        let before = told(&inventory);
        let refused = step(&mut inventory, &mut input);
        if let Some(sentence) = refused {
            assert!(!sentence.is_empty());
            assert_eq!(told(&inventory), before, "{sentence}");
        }
    }
}

/// Performs one request; returns the sentence if it is refused.
fn step(inventory: &mut Inventory, input: &mut Input<'_>) -> Option<String> {
    let kind = input.below(9);
    let name = name(input.block());
    let body = input.block();
    let outcome = match kind {
        0 => parse(body).and_then(|request: PortGroupRequest| {
            done(inventory.add_portgroup(&request, Origin::Runtime))
        }),
        1 => parse(body)
            .and_then(|change: PortGroupChange| done(inventory.change_portgroup(&name?, &change))),
        2 => name.and_then(|name| done(inventory.remove_portgroup(&name))),
        3 => parse(body).and_then(|request: AdapterRequest| {
            done(inventory.add_adapter(&request, Origin::Runtime))
        }),
        4 => parse(body)
            .and_then(|change: AdapterChange| done(inventory.change_adapter(&name?, &change))),
        5 => name.and_then(|name| done(inventory.remove_adapter(&name))),
        6 => parse(body).and_then(|request: UplinkRequest| {
            without_files(request.key.is_none())?;
            done(inventory.add_uplink(&request, Origin::Runtime))
        }),
        7 => parse(body).and_then(|request: PeerRequest| {
            without_files(request.key.is_none())?;
            done(inventory.add_peer(&request, Origin::Runtime))
        }),
        _ => parse(body)
            .and_then(|request: MoveRequest| done(inventory.check_shard_number(request.shard))),
    };
    outcome.err()
}

fn name(bytes: &[u8]) -> Result<Name, String> {
    let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    text.parse()
        .map_err(|error: vrdma_api::NotAName| error.to_string())
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn done<T>(outcome: Result<T, Refusal>) -> Result<(), String> {
    outcome.map(drop).map_err(|refusal| refusal.to_string())
}

/// Refuses files of keys, which this target does not test.
fn without_files(there_are_none: bool) -> Result<(), String> {
    there_are_none
        .then_some(())
        .ok_or_else(|| "it names a file".to_owned())
}
