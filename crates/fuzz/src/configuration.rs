//! The text of a configuration file. It is refused with a sentence, or it makes a daemon whose objects can be described
//! one by one, as they are kept over a restart, and made again.

use std::path::Path;

use vrdma_inventory::config::Config;
use vrdma_inventory::{Difference, Inventory};

const FILE: &str = "vrdmad.toml";
const RUN_DIR: &str = "/run/vrdma-fuzz";

/// Reads the input as a file.
pub fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    match Config::from_text(Path::new(FILE), text, Path::new(RUN_DIR)) {
        Ok(config) => can_be_made_again(&config.inventory),
        Err(error) => assert!(error.to_string().contains(FILE), "the file is named"),
    }
}

/// Another inventory that follows this one's differences has the same objects, with the same differences.
fn can_be_made_again(inventory: &Inventory) {
    let before = told(inventory);
    let mut again = inventory.clone();
    let refused = again.follow(&before);
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(told(&again), before);
}

/// The differences of all objects of an inventory.
pub(crate) fn told(inventory: &Inventory) -> Vec<Difference> {
    let objects = inventory.objects();
    objects.iter().map(|it| inventory.difference(it)).collect()
}
