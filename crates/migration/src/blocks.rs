//! A QEMU's blocks of memory, as its monitor lists them, and which of them a relay may place.

use vrdma_api::RelayBlock;

use crate::error::Cause;

/// Command for the monitor.
pub const QUESTION: &str = "info ramblock";

/// Words after a name: the size of its pages and its unit, offset, used, total, address, rights.
const WORDS: usize = 7;

/// Bytes of one of the processor's own pages.
const SMALL_PAGE: u64 = 4096;

/// A block of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RamBlock {
    name: String,
    /// Bytes of a page of the block at this host.
    page_bytes: u64,
    bytes: u64,
    /// Address at which QEMU has mapped the block.
    address: u64,
}

impl RamBlock {
    /// Whether its pages have the processor's page size, and are not huge.
    pub(crate) fn has_small_pages(&self) -> bool {
        self.page_bytes <= SMALL_PAGE
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Parses the list; `None` if the text is no such list.
#[must_use]
pub fn parse(said: &str) -> Option<Vec<RamBlock>> {
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    let head = lines.next()?;
    let is_list = head.contains("Block Name") && head.contains("HVA");
    let blocks = lines.map(block);
    is_list.then(|| blocks.collect::<Option<Vec<_>>>())?
}

/// Parses a line. Memory that a device in another process has mapped has no name.
fn block(line: &str) -> Option<RamBlock> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, rest) = words.split_at(words.len().checked_sub(WORDS)?);
    let [number, unit, _, used, _, address, _] = *rest else {
        return None;
    };
    Some(RamBlock {
        name: name.join(" "),
        page_bytes: page_bytes(number, unit)?,
        bytes: hex(used)?,
        address: hex(address)?,
    })
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// Parses a size such as `4 KiB`.
fn page_bytes(number: &str, unit: &str) -> Option<u64> {
    let shift = match unit {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Returns the shared blocks that both QEMUs have, and their addresses; `shared` has the names of the shared backends.
///
/// # Errors
/// When there is none, or the other QEMU has something else.
pub fn placed(
    shared: &[&str],
    here: &[RamBlock],
    there: &[RamBlock],
) -> Result<Vec<RelayBlock>, Cause> {
    let is_shared = |block: &&RamBlock| {
        let id = block.name.strip_prefix("/objects/").unwrap_or(&block.name);
        shared.contains(&id)
    };
    let blocks = here.iter().filter(is_shared);
    let blocks: Result<Vec<_>, _> = blocks.map(|block| pair(block, there)).collect();
    match blocks {
        Ok(blocks) if blocks.is_empty() => Err(Cause::new(
            "none of the VM's memory backends is a block of its memory; name the backend with -machine memory-backend=",
        )),
        blocks => blocks,
    }
}

fn pair(here: &RamBlock, there: &[RamBlock]) -> Result<RelayBlock, Cause> {
    let name = &here.name;
    let same = there.iter().find(|block| block.name == *name);
    match same {
        Some(same) if same.bytes == here.bytes => Ok(RelayBlock {
            name: name.clone(),
            bytes: here.bytes,
            page_bytes: here.page_bytes,
            source: here.address,
            destination: same.address,
        }),
        _ => Err(Cause::new(format!(
            "the VM's block of memory {name} is another one at the destination; start both QEMUs with the same options"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answer of QEMU 11.1.3.
    const SAID: &str = "              Block Name    PSize              Offset               Used              Total                HVA  RO\r\n\
                        \x20                    ram    4 KiB  0x0000000000000000 0x0000000010000000 0x0000000010000000 0x00007f8a40000000  rw\r\n\
                        \x20                           4 KiB  0x0000000010080000 0x00000000003ff000 0x00000000003ff000 0x00007f2be0801000  rw\r\n\
                        \x20                 pc.bios    4 KiB  0x0000000010000000 0x0000000000040000 0x0000000000040000 0x00007f8a9f600000  ro\r\n";

    #[test]
    fn shared_blocks_are_found_on_both_sides() {
        let here = parse(SAID).unwrap();
        assert_eq!(here.len(), 3);
        let mut there = here.clone();
        there[0].address = 0x7000_0000_0000;
        let placed_blocks = placed(&["ram"], &here, &there).unwrap();
        assert_eq!(
            placed_blocks,
            [RelayBlock {
                name: "ram".to_owned(),
                bytes: 1 << 28,
                page_bytes: 4096,
                source: 0x7f8a_4000_0000,
                destination: 0x7000_0000_0000,
            }]
        );
        let private = placed(&[], &here, &there).unwrap_err();
        assert!(
            private.to_string().contains("none of the VM's memory"),
            "{private}"
        );
        there[0].bytes = 1 << 20;
        let other = placed(&["ram"], &here, &there).unwrap_err();
        assert!(other.to_string().contains("is another one"), "{other}");
    }

    #[test]
    fn what_is_no_list_is_none() {
        assert_eq!(parse("unknown command: 'info ramblock'\r\n"), None);
        assert_eq!(parse("Block Name HVA\r\nram 4 KiB 0x0\r\n"), None);
    }
}
