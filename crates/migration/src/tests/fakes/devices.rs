//! The devices that a QEMU shows, and its monitor's output about them.

use serde_json::{Value, json};

use super::{Fault, World, table_of};

impl World {
    pub(super) fn pci(&self, is_there: bool) -> Value {
        let moved = u8::from(is_there && self.fault == Fault::OtherSlot);
        let device = if self.fault == Fault::OtherVm {
            0x07b0
        } else {
            0x0820
        };
        let id = json!({ "vendor": 0x15ad, "device": device });
        // The last adapter is in the first slot.
        let adapters = (0..self.adapters.len()).rev().enumerate();
        let devices = adapters.map(|(place, at)| {
            let regions = match is_there {
                true => json!([]),
                false => json!([{ "bar": 0, "address": table_of(at) }]),
            };
            let slot = 5 + place as u8 + moved;
            let bus = u8::from(self.fault == Fault::BehindBridge);
            json!({ "bus": bus, "slot": slot, "function": 1, "id": id, "regions": regions })
        });
        json!([{ "bus": 0, "devices": devices.collect::<Vec<_>>() }])
    }

    pub(super) fn monitor(&mut self, command: &str) -> String {
        let is_other = self.fault == Fault::OtherDevice;
        let device = if is_other { 0x07b0_15ad } else { 0x0820_15ad };
        match command {
            "info ramblock" if self.fault == Fault::HugePages => {
                super::super::relays::BLOCKS.replace("memory    4 KiB", "memory    2 MiB")
            }
            "info ramblock" => super::super::relays::BLOCKS.to_owned(),
            "i/w 0xcf8" => format!("portl[0x0cf8] = {:#010x}\r\n", self.latch),
            "i/w 0xcfc" => format!("portl[0x0cfc] = {device:#010x}\r\n"),
            _ if command.starts_with("xp") => (0..3)
                .map(|row| {
                    let words: Vec<_> = (1..=4)
                        .map(|word| format!("{:#010x}", 4 * row + word))
                        .collect();
                    format!("{:x}: {}\r\n", 0xfebd_4000_u32 + 16 * row, words.join(" "))
                })
                .collect(),
            _ => String::new(),
        }
    }
}
