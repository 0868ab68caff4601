//! Rules 1 to 12: BARs, shared region, slots.

use vrdma_driver::{Directory, Fabric, Guest, RAM_BASE};
use vrdma_memory::{PAGE, Protection};
use vrdma_pvrdma::abi::command::{Command, REQUEST_BYTES};
use vrdma_pvrdma::abi::region::SharedRegion;
use vrdma_pvrdma::abi::register::{Control, Register};
use vrdma_pvrdma::{BarRegion, DeviceState};

use super::single::{Single, assert_refused, bare};
use vrdma_driver::object::Context;

const DSR_BYTES: u64 = 280;

fn activate(vm: &mut Guest) -> u32 {
    vm.write_checked(Register::Control, Control::Activate as u32)
}

/// A guest that probed and was then reset, so that its shared region can be spoilt before DSRHIGH.
fn prepared() -> (Fabric, u64) {
    let mut fabric = bare();
    fabric[0].probe().unwrap();
    let region = fabric[0].driver().region;
    fabric[0].write_register(Register::Control, Control::Reset as u32);
    (fabric, region)
}

/// The outcome of ACTIVATE with a changed shared region.
fn activate_with(change: impl FnOnce(&mut SharedRegion, &mut Guest)) -> u32 {
    let (mut fabric, at) = prepared();
    let vm = &mut fabric[0];
    let mut region: SharedRegion = vm.ram.read(at);
    change(&mut region, vm);
    vm.ram.write(at, &region);
    vm.write_region_address(at);
    let outcome = activate(vm);
    let expected = if outcome == 0 {
        DeviceState::Active
    } else {
        DeviceState::Configured
    };
    assert_eq!(vm.device.snapshot().state, expected);
    outcome
}

#[test]
fn rule_01_accesses_are_aligned_words() {
    let mut fabric = bare();
    let vm = &mut fabric[0];
    vm.probe().unwrap();
    let regions = [
        BarRegion::Registers,
        BarRegion::Doorbells,
        BarRegion::Msix,
        BarRegion::Config,
    ];
    for region in regions {
        let size = vm.device.region_bytes(region);
        for offset in [
            0,
            1,
            2,
            3,
            4,
            0x24,
            0x26,
            0x28,
            size - 4,
            size - 1,
            size,
            u64::MAX,
        ] {
            for length in [0, 1, 2, 3, 8, 64, 5000] {
                let mut bytes = vec![0; length];
                vm.device.read(region, offset, &mut bytes);
                if region == BarRegion::Registers && length != 4 {
                    assert!(bytes.iter().all(|byte| *byte == 0xff));
                }
                if region != BarRegion::Config {
                    let now = Default::default();
                    vm.device.write(region, offset, &vec![0xff; length], now);
                }
            }
        }
    }
    assert_eq!(vm.device.snapshot().state, DeviceState::Active);
    vm.create_pd(Context::KERNEL).unwrap();
}

#[test]
fn rule_02_the_shared_region_is_in_mapped_memory() {
    let (mut fabric, region) = prepared();
    let vm = &mut fabric[0];
    let end = RAM_BASE + vm.ram.bytes();
    let nowhere = [
        0,
        8,
        0x1000,
        region + 1,
        region + 4,
        end - DSR_BYTES + 8,
        end,
        u64::MAX - 7,
    ];
    for address in nowhere {
        vm.write_region_address(address);
        assert_eq!(
            vm.device.snapshot().state,
            DeviceState::Reset,
            "{address:#x}"
        );
        assert_ne!(activate(vm), 0, "{address:#x}");
    }
    vm.isolate(region, Protection::READ).unwrap();
    vm.write_region_address(region);
    assert_ne!(activate(vm), 0, "read-only");
    vm.isolate(region, Protection::BOTH).unwrap();
    vm.write_region_address(region);
    assert_eq!(activate(vm), 0);
}

#[test]
fn rule_03_the_shared_region_is_read_once() {
    let (mut fabric, region) = prepared();
    let vm = &mut fabric[0];
    vm.write_region_address(region);
    vm.ram.write_bytes(region, &[0xee; 72]);
    assert_eq!(activate(vm), 0);
    vm.write_register(Register::InterruptMask, 0);
    vm.create_pd(Context::KERNEL).unwrap();
}

#[test]
fn rule_04_the_driver_speaks_version_17_or_later() {
    for version in [0, 1, 16] {
        assert_ne!(
            activate_with(|region, _| region.driver_version = version.into()),
            0
        );
    }
    for version in [17, 20, u32::MAX] {
        assert_eq!(
            activate_with(|region, _| region.driver_version = version.into()),
            0
        );
    }
}

#[test]
fn rule_05_slots_are_aligned_and_mapped() {
    for nowhere in [0, 4, RAM_BASE + 1, RAM_BASE - 8, u64::MAX - 7] {
        assert_ne!(
            activate_with(|region, _| region.cmd_slot_dma = nowhere.into()),
            0
        );
        assert_ne!(
            activate_with(|region, _| region.resp_slot_dma = nowhere.into()),
            0
        );
    }
    let edge = |vm: &Guest| RAM_BASE + vm.ram.bytes() - REQUEST_BYTES as u64 + 8;
    assert_ne!(
        activate_with(|region, vm| region.cmd_slot_dma = edge(vm).into()),
        0
    );
    let overlap = activate_with(|region, _| region.resp_slot_dma = region.cmd_slot_dma);
    assert_eq!(overlap, 0, "slots may overlap");
}

#[test]
fn rule_06_device_rings_have_2_to_512_pages() {
    for pages in [0, 1, 513, u32::MAX] {
        assert_ne!(
            activate_with(|region, _| region.async_ring.num_pages = pages.into()),
            0
        );
        assert_ne!(
            activate_with(|region, _| region.cq_ring.num_pages = pages.into()),
            0
        );
    }
    for pages in [2, 512] {
        let outcome = activate_with(|region, vm| {
            let directory = Directory::with_pages(&mut vm.ram, pages as usize);
            region.async_ring.num_pages = pages.into();
            region.async_ring.pdir_dma = directory.address.into();
        });
        assert_eq!(outcome, 0);
    }
}

#[test]
fn rule_07_device_rings_are_mapped_pages() {
    for nowhere in [0, RAM_BASE + 8, 0x1000] {
        assert_ne!(
            activate_with(|region, _| region.cq_ring.pdir_dma = nowhere.into()),
            0
        );
        for level in 0..2 {
            let outcome = activate_with(|_, vm| {
                let pages = &vm.driver().event_pages;
                let at = [pages.address, pages.entry_at(3)][level];
                vm.ram.write(at, &nowhere.to_le_bytes());
            });
            assert_ne!(outcome, 0, "{nowhere:#x} {level}");
        }
    }
}

#[test]
fn rule_08_control_values_in_their_order() {
    let mut fabric = bare();
    let vm = &mut fabric[0];
    vm.set_bus_master(true);
    assert_ne!(activate(vm), 0, "before the shared region");
    vm.probe().unwrap();
    for value in [3, 4, 0x8000_0000, u32::MAX] {
        assert_ne!(vm.write_checked(Register::Control, value), 0);
    }
    assert_eq!(activate(vm), 0, "again");
    assert_eq!(vm.unquiesce(), 0);
    vm.create_pd(Context::KERNEL).unwrap();
}

#[test]
fn rule_09_no_command_before_activation() {
    let (mut fabric, region) = prepared();
    let vm = &mut fabric[0];
    assert_ne!(vm.write_checked(Register::Request, 0), 0, "reset");
    vm.write_region_address(region);
    assert_ne!(vm.write_checked(Register::Request, 0), 0, "configured");
    assert_eq!(vm.device.take_interrupts(), 0);
}

#[test]
fn rule_10_a_response_does_not_change_its_request() {
    let (mut fabric, at) = prepared();
    let vm = &mut fabric[0];
    let mut region: SharedRegion = vm.ram.read(at);
    region.resp_slot_dma = (region.cmd_slot_dma.get() + 8).into();
    vm.ram.write(at, &region);
    vm.write_region_address(at);
    assert_eq!(activate(vm), 0);
    let mut slot = [0; REQUEST_BYTES];
    slot[8] = Command::CreatePd as u8;
    for pds in 1..10 {
        assert_eq!(vm.execute_raw(&slot), 0);
        assert_eq!(vm.device.snapshot().counts.pds, pds);
    }
}

#[test]
fn rule_11_unknown_commands_are_refused() {
    let mut single = Single::new();
    let vm = single.vm();
    for code in [21, 22, 255, 0x8000_0000, u32::MAX] {
        let mut slot = [0; REQUEST_BYTES];
        slot[8..12].copy_from_slice(&code.to_le_bytes());
        assert_ne!(vm.execute_raw(&slot), 0, "{code}");
        let mut ack = [0; 4];
        vm.ram.read_bytes(vm.driver().response_slot + 8, &mut ack);
        assert_eq!(ack, [0; 4], "no older answer stands in the slot");
    }
    assert_refused(vm.tell(Command::ResizeCq, &[0u8; 8]));
}

#[test]
fn rule_12_without_its_response_slot_the_device_stops() {
    for told in [false, true] {
        let mut single = Single::new();
        let vm = single.vm();
        let slot = vm.driver().response_slot;
        vm.isolate(slot, Protection::BOTH).unwrap();
        vm.create_pd(Context::KERNEL).unwrap();
        if told {
            vm.unmap(slot, PAGE);
        } else {
            vm.dma().unmap(slot, PAGE).unwrap();
            assert_ne!(vm.execute_raw(&[0; REQUEST_BYTES]), 0);
        }
        assert_eq!(vm.device.snapshot().state, DeviceState::Failed);
        assert_ne!(vm.write_checked(Register::Request, 0), 0);
    }
}
