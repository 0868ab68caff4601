//! Probing, resetting and failing, seen through the registers.

use super::*;
use crate::abi::command::Command;
use crate::abi::event::{EventCode, EventEntry};
use crate::abi::region::{Capabilities, SharedRegion};
use crate::abi::register::{Control, Register};
use crate::abi::request::Context;
use crate::testing::{Guest, RAM, config};

const NOT_ACTIVE: u32 = 0xffff;
const EINVAL: u32 = 22;

fn caps(guest: &Guest) -> Capabilities {
    guest.get(guest.region_at + SharedRegion::GUEST_BYTES as u64)
}

#[test]
fn a_device_can_move_to_its_thread() {
    fn check<T: Send>() {}
    check::<Device>();
}

#[test]
fn the_driver_probes() {
    let mut guest = Guest::new(config());
    assert_eq!(guest.read_register(Register::Version), 20);
    assert_eq!(guest.read_register(Register::Error), NOT_ACTIVE);
    guest.hand_over_region();
    let caps = caps(&guest);
    assert_eq!((caps.mode, caps.gid_types, caps.phys_port_cnt), (0, 2, 1));
    assert_eq!(caps.node_guid.get(), 0x5054_00ff_fe00_0001);
    assert_eq!(caps.max_uar.get(), 8);
    assert_eq!(guest.control(Control::Activate), 0);
    assert_eq!(guest.control(Control::Activate), 0);
    assert_eq!(guest.control(Control::Unquiesce), 0);
    assert_eq!(guest.device.snapshot().state, DeviceState::Active);
}

#[test]
fn an_old_driver_gets_the_older_gid_type() {
    let mut guest = Guest::new(config());
    guest.region.driver_version = 17.into();
    guest.hand_over_region();
    assert_eq!(caps(&guest).gid_types, 1);
    assert_eq!(guest.control(Control::Activate), 0);
}

#[test]
fn nothing_works_before_activation() {
    let mut guest = Guest::new(config());
    let body = Context::default();
    assert_eq!(guest.execute(Command::CreatePd, &body), EINVAL);
    assert_eq!(guest.control(Control::Activate), EINVAL);
    assert_eq!(guest.control(Control::Unquiesce), EINVAL);
    guest.hand_over_region();
    assert_eq!(guest.execute(Command::CreatePd, &body), EINVAL);
    guest.write_register(Register::Control, 9);
    assert_eq!(guest.read_register(Register::Error), EINVAL);
}

#[test]
fn a_region_outside_memory_leaves_the_device_in_reset() {
    let mut guest = Guest::new(config());
    for (low, high) in [(0, 0), (4, 0), (RAM as u32 + 4, 0), (0, 1), (!7, u32::MAX)] {
        guest.write_register(Register::DsrLow, low);
        guest.write_register(Register::DsrHigh, high);
        assert_eq!(
            guest.device.snapshot().state,
            DeviceState::Reset,
            "{high:#x} {low:#x}"
        );
        assert_eq!(guest.control(Control::Activate), EINVAL);
    }
}

#[test]
fn bad_terms_are_refused_at_activation() {
    let spoil: [fn(&mut SharedRegion); 8] = [
        |region| region.driver_version = 16.into(),
        |region| region.cmd_slot_dma = 0.into(),
        |region| region.cmd_slot_dma = (RAM + 4).into(),
        |region| region.resp_slot_dma = 0x1000.into(),
        |region| region.async_ring.num_pages = 1.into(),
        |region| region.async_ring.num_pages = 513.into(),
        |region| region.cq_ring.num_pages = u32::MAX.into(),
        |region| region.cq_ring.pdir_dma = 0x2000.into(),
    ];
    for (number, spoil) in spoil.iter().enumerate() {
        let mut guest = Guest::new(config());
        spoil(&mut guest.region);
        guest.hand_over_region();
        assert_eq!(guest.control(Control::Activate), EINVAL, "{number}");
        assert_eq!(
            guest.device.snapshot().state,
            DeviceState::Configured,
            "{number}"
        );
    }
}

#[test]
fn odd_accesses_read_ones_and_write_nothing() {
    let mut guest = Guest::active();
    for (offset, length) in [(0, 2), (0, 8), (2, 4), (0x28, 4), (0xffc, 4), (u64::MAX, 4)] {
        let mut data = vec![0; length];
        guest.device.read(BarRegion::Registers, offset, &mut data);
        assert!(data.iter().all(|byte| *byte == 0xff), "{offset:#x}");
        guest
            .device
            .write(BarRegion::Registers, offset, &data, guest.now);
    }
    guest.device.write(
        BarRegion::Registers,
        Register::Control.offset(),
        &[2],
        guest.now,
    );
    assert_eq!(guest.device.snapshot().state, DeviceState::Active);
    let mut data = [0; 4];
    guest.device.read(BarRegion::Doorbells, 0, &mut data);
    assert_eq!(data, [0xff; 4]);
}

#[test]
fn reset_forgets_everything_at_once() {
    let mut guest = Guest::active();
    guest.execute(Command::CreatePd, &Context::default());
    guest.write_register(Register::Control, Control::Reset as u32);
    assert_eq!(guest.device.take_interrupts(), 0);
    assert_eq!(guest.device.take_gid_change(), Some(GidChange::Cleared));
    assert_eq!(guest.device.take_gid_change(), None);
    let snapshot = guest.device.snapshot();
    assert_eq!(
        (snapshot.state, snapshot.counts.pds),
        (DeviceState::Reset, 0)
    );
    assert_eq!(guest.control(Control::Activate), EINVAL);
}

#[test]
fn a_new_region_resets_first() {
    let mut guest = Guest::active();
    guest.execute(Command::CreatePd, &Context::default());
    guest.hand_over_region();
    assert_eq!(guest.device.snapshot().state, DeviceState::Configured);
    assert_eq!(guest.control(Control::Activate), 0);
    let snapshot = guest.device.snapshot();
    assert_eq!((snapshot.counts.pds, snapshot.lives), (0, 2));
}

#[test]
fn without_bus_mastering_nothing_is_touched_and_nothing_fires() {
    let mut guest = Guest::active();
    guest.execute(Command::CreatePd, &Context::default());
    guest.bus_master(false);
    assert_eq!(guest.device.take_interrupts(), 0);
    assert!(!guest.device.poll(&guest.space.view(), guest.now));
    guest.bus_master(true);
    assert_eq!(guest.device.take_interrupts(), 1);
}

#[test]
fn a_function_reset_turns_bus_mastering_off() {
    let mut guest = Guest::active();
    guest.device.reset();
    guest.write_register(Register::DsrLow, guest.region_at as u32);
    guest.write_register(Register::DsrHigh, 0);
    assert_eq!(guest.device.snapshot().state, DeviceState::Reset);
    guest.bus_master(true);
    guest.hand_over_region();
    assert_eq!(guest.device.snapshot().state, DeviceState::Configured);
}

#[test]
fn a_lost_slot_stops_the_device() {
    let mut guest = Guest::active();
    guest.space.unmap_all();
    guest.device.memory_changed();
    assert_eq!(guest.device.snapshot().state, DeviceState::Failed);
    assert_ne!(guest.read_register(Register::Error), 0);
    guest.write_register(Register::Control, Control::Reset as u32);
    assert_eq!(guest.device.snapshot().state, DeviceState::Reset);
}

#[test]
fn a_device_that_stops_says_so_while_it_can() {
    let mut guest = Guest::new(config());
    guest.hand_over_region();
    let table: u64 = guest.get(guest.region.async_ring.pdir_dma.get());
    let (state, entries) = (guest.get::<u64>(table), guest.get::<u64>(table + 8));
    assert_eq!(guest.control(Control::Activate), 0);
    let Stage::Active(adapter, _) = &mut guest.device.stage else {
        panic!("it was activated");
    };
    adapter.break_down();
    guest.device.give_up_if_broken();
    assert_eq!(guest.get::<u32>(state + 8), 1);
    let event: EventEntry = guest.get(entries);
    assert_eq!(event.code.get(), EventCode::DeviceFatal as u32);
}

#[test]
fn what_a_life_had_is_given_to_whoever_frees_it() {
    let mut guest = Guest::active();
    assert!(guest.device.take_ended().is_none());
    guest.execute(Command::CreatePd, &Context::default());
    guest.device.reset();
    assert!(guest.device.take_ended().is_some());
    assert!(guest.device.take_ended().is_none());
}
