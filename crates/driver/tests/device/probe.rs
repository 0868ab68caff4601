//! The probe sequence of the reference, section 12.1, step by step.

use vrdma_driver::object::{Connection, Context, QpShape, rights};
use vrdma_driver::work::SendWork;
use vrdma_driver::{Fabric, Pair, PairOptions, ProbeError};
use vrdma_pvrdma::abi::register::{Control, Register};
use vrdma_pvrdma::abi::request::qp_type;
use vrdma_pvrdma::{DeviceConfig, DeviceState};
use vrdma_wire::Gid;

fn bare() -> (Fabric, usize) {
    let mut fabric = Fabric::new();
    let config = DeviceConfig::new(Fabric::identity(1));
    let guest = fabric.add_bare(config).unwrap();
    (fabric, guest)
}

#[test]
fn version_and_capabilities() {
    let (mut fabric, guest) = bare();
    let vm = &mut fabric[guest];
    assert_eq!(vm.read_register(Register::Version), 20);
    vm.probe().unwrap();
    let caps = vm.driver().caps;
    assert_eq!((caps.mode, caps.gid_types), (0, 2));
    assert_eq!(caps.node_guid.get(), 0x5054_00ff_fe00_0001);
    assert_eq!(caps.sys_image_guid.get(), caps.node_guid.get());
    assert_eq!(caps.phys_port_cnt, 1);
    assert_eq!((caps.atomic_ops, caps.bmme_flags), (3, 7));
    assert_eq!(caps.max_fast_reg_page_list_len.get(), 128);
    assert_eq!(caps.device_cap_flags.get(), 0x1c80);
    assert_eq!(caps.max_mr_size.get(), 1 << 30);
    assert_eq!(caps.max_pkeys.get(), 1);
    assert_eq!(vm.device.snapshot().state, DeviceState::Active);
    assert_eq!(vm.device.snapshot().driver_version, Some(20));
}

#[test]
fn capabilities_obey_the_driver_s_arithmetic() {
    let (mut fabric, guest) = bare();
    let vm = &mut fabric[guest];
    vm.probe().unwrap();
    let caps = vm.driver().caps;
    let powers = [
        caps.max_uar,
        caps.max_qp_wr,
        caps.max_sge,
        caps.max_cqe,
        caps.max_srq_wr,
    ];
    assert!(
        powers.iter().all(|cap| cap.get().is_power_of_two()),
        "{caps:?}"
    );
    assert!(
        caps.max_qp.get() <= 0xffff,
        "the provider cuts it to 16 bits"
    );
    assert!(caps.max_qp_wr.get() >= 512, "the MAD layer asks for that");
    assert!(caps.max_cqe.get() >= 4096 && caps.max_cqe.get() <= 1 << 23);
    assert!(caps.max_sge.get() <= 128 && caps.max_sge_rd.get() <= caps.max_sge.get());
    assert!(caps.gid_tbl_len.get() <= 256);
    assert!(caps.max_srq.get() > 0, "UCX needs shared receive queues");
}

#[test]
fn the_port_is_active() {
    let mut fabric = Fabric::new();
    let guest = fabric.add();
    let port = fabric[guest].query_port(1).unwrap();
    assert_eq!((port.state.get(), port.phys_state), (4, 5));
    assert_eq!(
        port.gid_tbl_len.get(),
        fabric[guest].driver().caps.gid_tbl_len.get()
    );
    assert!(port.max_msg_sz.get() >= 1 << 30);
    assert_eq!(port.pkey_tbl_len.get(), 1);
    assert!((3..=5).contains(&port.active_mtu.get()));
    assert_eq!(fabric[guest].query_pkey(1, 0), Ok(0xffff));
}

/// Steps 13 to 18: registration, GIDs, the MAD client with QP1, UNQUIESCE.
#[test]
fn registration_as_linux_does_it() {
    let (mut fabric, guest) = bare();
    let vm = &mut fabric[guest];
    vm.probe().unwrap();
    vm.query_port(1).unwrap();
    vm.bind_gid(0, vm.gid()).unwrap();
    vm.bind_gid(1, Gid::from_ipv4([10, 10, 0, 1].into()))
        .unwrap();
    vm.query_port(1).unwrap();
    assert_eq!(vm.query_pkey(1, 0), Ok(0xffff));

    let pd = vm.create_pd(Context::KERNEL).unwrap();
    let mr = vm.register_dma(pd).unwrap();
    let cq = vm.create_cq(Context::KERNEL, 1024).unwrap();
    vm.arm(&cq);
    let qp = vm.create_qp(pd, (&cq, &cq), None, QpShape::GSI).unwrap();
    assert_eq!(qp.qpn, 1, "QP1 has a well-known number");
    assert_ne!(qp.handle, 0, "handle 0 confuses the provider");
    vm.start_datagrams(&qp, 0x8001_0000).unwrap();
    vm.arm(&cq);
    for id in 0..512 {
        let page = vm.ram.take();
        vm.post_recv(&qp, id, &[mr.sge(page, 296)]).unwrap();
    }
    assert_eq!(vm.unquiesce(), 0);
    let counts = vm.device.snapshot().counts;
    assert_eq!(
        (counts.pds, counts.mrs, counts.cqs, counts.qps),
        (1, 1, 1, 1)
    );
    assert_eq!(vm.device.snapshot().violations, Default::default());
}

#[test]
fn removal_and_probing_again_leaves_nothing() {
    let mut fabric = Fabric::new();
    let guest = fabric.add();
    for life in 1..4 {
        let vm = &mut fabric[guest];
        assert_eq!(vm.device.snapshot().lives, life);
        let context = vm.open().unwrap();
        let pd = vm.create_pd(context).unwrap();
        let buffer = vm.buffer(4096);
        vm.register(pd, &buffer, rights::ALL).unwrap();
        vm.remove();
        assert_eq!(vm.device.snapshot().counts, Default::default());
        assert_eq!(vm.device.snapshot().gids, []);
        vm.probe().unwrap();
        fabric.bind(guest);
    }
}

/// After kexec or a crash no driver writes RESET: DSRHIGH resets.
#[test]
fn a_driver_that_comes_back_without_reset() {
    let mut fabric = Fabric::new();
    let guest = fabric.add();
    let vm = &mut fabric[guest];
    let context = vm.open().unwrap();
    vm.create_pd(context).unwrap();
    vm.forget_driver();
    vm.probe().unwrap();
    assert_eq!(vm.device.snapshot().counts, Default::default());
    vm.open().unwrap();
}

#[test]
fn old_drivers_get_what_they_know() {
    for version in 17..20 {
        let (mut fabric, guest) = bare();
        let vm = &mut fabric[guest];
        vm.probe_as(version).unwrap();
        assert_eq!(
            vm.driver().caps.gid_types,
            if version == 17 { 1 } else { 2 }
        );
        assert_eq!(vm.device.snapshot().driver_version, Some(version));
        vm.open().unwrap();
    }
}

/// Before version 20 a queue pair has one number, for the guest's tables and on the wire.
#[test]
fn old_drivers_connect_to_each_other_and_to_new_ones() {
    for versions in [(17, 17), (18, 18), (19, 20), (20, 19)] {
        let mut fabric = Fabric::new();
        for (number, version) in [(1, versions.0), (2, versions.1)] {
            let config = DeviceConfig::new(Fabric::identity(number));
            let guest = fabric.add_bare(config).unwrap();
            fabric[guest].probe_as(version).unwrap();
            fabric.bind(guest);
        }
        let mut pair = Pair::between(fabric, (0, 1), PairOptions::default());
        if versions.0 < 20 {
            assert_eq!(pair.a.qp.handle, pair.a.qp.qpn);
        }
        pair.receive(7, 0, 64);
        pair.send(&SendWork::send(1).sge(pair.a.sge(0, 64)));
        assert_eq!(pair.sent()[0].status, 0, "{versions:?}");
        assert_eq!(pair.received()[0].qp, pair.b.qp.handle);
        assert_eq!(pair.bytes_of_b(0, 64), pair.bytes_of_a(0, 64));
    }
}

#[test]
fn a_driver_from_the_future_is_served() {
    let (mut fabric, guest) = bare();
    fabric[guest].probe_as(99).unwrap();
}

#[test]
fn a_driver_from_the_past_is_not() {
    let (mut fabric, guest) = bare();
    let refused = fabric[guest].probe_as(16);
    assert!(
        matches!(refused, Err(ProbeError::Activate(_))),
        "{refused:?}"
    );
}

#[test]
fn repeated_activation_and_unquiescing_change_nothing() {
    let mut fabric = Fabric::new();
    let guest = fabric.add();
    let vm = &mut fabric[guest];
    let pd = vm.create_pd(Context::KERNEL).unwrap();
    assert_eq!(
        vm.write_checked(Register::Control, Control::Activate as u32),
        0
    );
    assert_eq!(vm.unquiesce(), 0);
    vm.destroy_pd(pd).unwrap();
}

#[test]
fn a_connection_can_be_queried() {
    let mut fabric = Fabric::new();
    let guest = fabric.add();
    let vm = &mut fabric[guest];
    let context = vm.open().unwrap();
    let pd = vm.create_pd(context).unwrap();
    let cq = vm.create_cq(context, 16).unwrap();
    let qp = vm.create_qp(pd, (&cq, &cq), None, QpShape::RC).unwrap();
    let connection = Connection::to(0x55, Gid::from_ipv4([10, 0, 0, 9].into()));
    vm.connect(&qp, &connection).unwrap();
    let attrs = vm.query_qp(&qp).unwrap();
    assert_eq!(attrs.qp_state.get(), 3);
    assert_eq!(attrs.dest_qp_num.get(), 0x55);
    assert_eq!(
        (attrs.rq_psn.get(), attrs.sq_psn.get()),
        (0x11_1111, 0x11_1111)
    );
    assert_eq!(attrs.ah_attr.dgid, connection.gid.0);
    assert_eq!(attrs.cap.max_send_wr.get(), QpShape::RC.send_wr);
    assert_eq!(qp.qp_type, qp_type::RC);
    vm.destroy_qp(qp).unwrap();
    vm.destroy_cq(cq).unwrap();
}
