//! Rules 13 to 23: queries, contexts, counts, registrations.

use vrdma_driver::object::{Connection, Context, Pd, QpShape, qp_mask, qp_state, rights};
use vrdma_driver::{Directory, Guest, RAM_BASE};
use vrdma_memory::Protection;
use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::request::{self, CreateMr, CreateUc, mr_flag};
use vrdma_pvrdma::abi::response::Created;

use super::single::{Single, assert_refused};

const GIB: u64 = 1 << 30;

#[test]
fn rule_13_there_is_only_port_1() {
    let mut single = Single::new();
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    for port in [0, 2, 255] {
        assert_refused(vm.query_port(port));
        assert_refused(vm.query_pkey(port, 0));
        let cq = vm.create_cq(context, 4).unwrap();
        let qp = vm.create_qp(pd, (&cq, &cq), None, QpShape::RC).unwrap();
        let connection = Connection::to(9, vm.gid());
        let mut attrs = connection.attributes();
        attrs.qp_state = qp_state::INIT.into();
        attrs.port_num = port;
        assert_refused(vm.modify_qp(&qp, qp_mask::RC_INIT, attrs));
        vm.init_qp(&qp, 0, 0).unwrap();
        attrs.qp_state = qp_state::RTR.into();
        attrs.ah_attr.port_num = port;
        assert_refused(vm.modify_qp(&qp, qp_mask::RC_RTR, attrs));
    }
}

#[test]
fn rule_14_there_is_one_partition_key() {
    let mut single = Single::new();
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    for index in [1, 255] {
        assert_refused(vm.query_pkey(1, index));
        let cq = vm.create_cq(context, 4).unwrap();
        let qp = vm.create_qp(pd, (&cq, &cq), None, QpShape::RC).unwrap();
        let mut attrs = Connection::to(9, vm.gid()).attributes();
        attrs.qp_state = qp_state::INIT.into();
        attrs.pkey_index = u16::from(index).into();
        assert_refused(vm.modify_qp(&qp, qp_mask::RC_INIT, attrs));
    }
}

#[test]
fn rule_15_a_context_has_a_free_doorbell_page() {
    let mut single = Single::new();
    let pages = u64::from(single.limits().uar_pages);
    let vm = single.vm();
    let bar = vrdma_driver::DOORBELL_BASE / 4096;
    let taken = 1;
    for pfn in [
        bar,
        bar + taken,
        bar + pages,
        bar + pages + taken,
        0,
        pages * 7,
    ] {
        let request = CreateUc { pfn: pfn.into() };
        assert_refused(vm.ask::<Created>(Command::CreateUc, &request));
    }
    assert_eq!(vm.device.snapshot().contexts, 1);
    let last = CreateUc {
        pfn: (bar + pages - 1).into(),
    };
    vm.ask::<Created>(Command::CreateUc, &last).unwrap();
}

#[test]
fn rule_16_contexts_are_live() {
    let mut single = Single::new();
    let dead = single.vm().open().unwrap();
    single.vm().close(dead).unwrap();
    let unknown = [dead.handle, dead.handle + 1, 999_999, u32::MAX];
    for handle in unknown {
        let context = Context { handle, page: 2 };
        assert_refused(single.vm().create_pd(context));
        assert_refused(single.vm().create_cq(context, 4));
        let request = request::Context {
            ctx_handle: handle.into(),
            reserved: 0.into(),
        };
        assert_refused(single.vm().tell(Command::DestroyUc, &request));
    }
    assert_refused(single.vm().close(Context::KERNEL));
}

#[test]
fn rule_17_tables_have_ends() {
    let mut single = Single::with(|config| {
        let limits = &mut config.limits;
        (limits.uar_pages, limits.pds, limits.mrs, limits.cqs) = (4, 3, 3, 3);
        (limits.qps, limits.srqs, limits.listed_pages) = (4, 2, 40);
    });
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    vm.open().unwrap();
    vm.open().unwrap();
    fills(2, || vm.create_pd(context).is_ok());
    fills(3, || registers(vm, pd));
    let cqs: Vec<_> = (0..3).map(|_| vm.create_cq(context, 4).unwrap()).collect();
    assert_refused(vm.create_cq(context, 4));
    let cqs = (&cqs[0], &cqs[1]);
    fills(3, || vm.create_qp(pd, cqs, None, small()).is_ok());
    fills(2, || vm.create_srq(pd, 4, 1).is_ok());
}

/// Checks that exactly `count` calls succeed before one fails.
fn fills(count: usize, mut create: impl FnMut() -> bool) {
    assert_eq!((0..count + 5).take_while(|_| create()).count(), count);
}

fn small() -> QpShape {
    QpShape {
        send_wr: 4,
        recv_wr: 4,
        send_sge: 1,
        recv_sge: 1,
        ..QpShape::RC
    }
}

fn registers(vm: &mut Guest, pd: Pd) -> bool {
    let buffer = vm.buffer(8);
    vm.register(pd, &buffer, rights::ALL).is_ok()
}

#[test]
fn rule_17_page_lists_are_paid_from_a_quota() {
    let mut single = Single::with(|config| config.limits.listed_pages = 10);
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    let buffer = vm.buffer(11 * 4096);
    assert_refused(vm.register(pd, &buffer, rights::ALL));
    let buffer = vm.buffer(8 * 4096);
    let mr = vm.register(pd, &buffer, rights::ALL).unwrap();
    assert_refused(vm.create_cq(context, 256));
    assert_refused(vm.create_srq(pd, 256, 1));
    vm.deregister(mr).unwrap();
    vm.create_cq(context, 256).unwrap();
}

#[test]
fn rule_18_domains_are_live_and_of_one_context() {
    let mut single = Single::new();
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    let dead = vm.create_pd(context).unwrap();
    vm.destroy_pd(dead).unwrap();
    let other = vm.open().unwrap();
    let other_pd = vm.create_pd(other).unwrap();
    let cq = vm.create_cq(context, 4).unwrap();
    let buffer = vm.buffer(8);
    for handle in [dead.handle, 1 << 23, u32::MAX] {
        let pd = Pd { handle, context };
        assert_refused(vm.register(pd, &buffer, rights::ALL));
        assert_refused(vm.create_srq(pd, 4, 1));
        assert_refused(vm.create_qp(pd, (&cq, &cq), None, QpShape::RC));
        assert_refused(vm.destroy_pd(pd));
    }
    assert_refused(vm.create_qp(other_pd, (&cq, &cq), None, QpShape::RC));
    let srq = vm.create_srq(other_pd, 4, 1).unwrap();
    assert_refused(vm.create_qp(pd, (&cq, &cq), Some(&srq), QpShape::RC));
}

#[test]
fn rule_19_only_the_kernel_registers_all_memory() {
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    assert_refused(vm.register_dma(pd));
    let kernel = vm.create_pd(Context::KERNEL).unwrap();
    vm.register_dma(kernel).unwrap();
    for flags in [mr_flag::DMA | mr_flag::FAST_REGISTER, 4, 1 << 31] {
        let request = CreateMr {
            flags: flags.into(),
            pd_handle: kernel.handle.into(),
            nchunks: 1.into(),
            ..CreateMr::default()
        };
        assert_refused(vm.create_mr(&request));
    }
}

#[test]
fn rule_20_only_the_kernel_fast_registers_up_to_128_pages() {
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    assert_refused(vm.register_empty(pd, 16));
    let kernel = vm.create_pd(Context::KERNEL).unwrap();
    assert_refused(vm.register_empty(kernel, 0));
    assert_refused(vm.register_empty(kernel, 129));
    assert_refused(vm.register_empty(kernel, u32::MAX));
    vm.register_empty(kernel, 1).unwrap();
    vm.register_empty(kernel, 128).unwrap();
}

#[test]
fn rule_21_a_region_is_as_long_as_its_pages() {
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    let buffer = vm.buffer_at(0x123, 8192);
    let (good, _) = vm.mr_request(pd, &buffer, rights::ALL);
    let start = buffer.address;
    let wrong = [
        (start, 0, 3),
        (start, 8192, 2),
        (start, 8192, 4),
        (start, 8192, 0),
        (start, 8192, u32::MAX),
        (start, GIB + 1, 262_145),
        (start, u64::MAX, 3),
        (u64::MAX - 100, 8192, 3),
        (u64::MAX, 1, 1),
        (start & !0xfff, 3 * 4096 + 1, 3),
    ];
    for (start, length, nchunks) in wrong {
        let request = CreateMr {
            start: start.into(),
            length: length.into(),
            nchunks: nchunks.into(),
            ..good
        };
        assert_refused(vm.create_mr(&request));
    }
    vm.create_mr(&good).unwrap();
}

#[test]
fn rule_22_remote_rights_need_local_writing() {
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    let buffer = vm.buffer(64);
    const ON_DEMAND: u32 = 64;
    const FLUSH_GLOBAL: u32 = 256;
    let wrong = [
        rights::REMOTE_WRITE,
        rights::REMOTE_ATOMIC,
        rights::REMOTE_WRITE | rights::REMOTE_READ,
        rights::ALL | ON_DEMAND,
        rights::ALL | FLUSH_GLOBAL,
        rights::ALL | 1 << 19,
        rights::ALL | 1 << 31,
    ];
    for access in wrong {
        assert_refused(vm.register(pd, &buffer, access));
    }
    for access in [
        0,
        rights::REMOTE_READ,
        rights::ALL,
        rights::ALL | rights::RELAXED_ORDERING,
    ] {
        vm.register(pd, &buffer, access).unwrap();
    }
    vm.register(pd, &buffer, rights::ALL | 0x3ff0_0000).unwrap();
}

#[test]
fn rule_23_every_page_is_aligned_mapped_and_writable() {
    let mut single = Single::new();
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    let buffer = vm.buffer(600 * 4096);
    for nowhere in [0, 8, RAM_BASE + 1, RAM_BASE - 4096, !0xfff] {
        for spoil in ["directory", "table", "page", "last page"] {
            let (mut request, directory) = vm.mr_request(pd, &buffer, rights::ALL);
            match spoil {
                "directory" => request.pdir_dma = nowhere.into(),
                "table" => vm.ram.write(directory.address + 8, &nowhere.to_le_bytes()),
                "page" => vm.ram.write(directory.entry_at(0), &nowhere.to_le_bytes()),
                _ => vm
                    .ram
                    .write(directory.entry_at(599), &nowhere.to_le_bytes()),
            }
            assert_refused(vm.create_mr(&request));
        }
    }
    let (request, directory) = vm.cq_request(context, 64);
    vm.isolate(directory.pages[1], Protection::READ).unwrap();
    assert_refused(vm.ask::<vrdma_pvrdma::abi::response::CreatedCq>(Command::CreateCq, &request));
    let pages = Directory::build(&mut vm.ram, vec![directory.pages[1]]);
    let read_only = CreateMr {
        start: 0.into(),
        length: 4096.into(),
        pdir_dma: pages.address.into(),
        pd_handle: pd.handle.into(),
        access_flags: rights::REMOTE_READ.into(),
        nchunks: 1.into(),
        ..CreateMr::default()
    };
    vm.create_mr(&read_only).unwrap();
    let written = CreateMr {
        access_flags: rights::LOCAL_WRITE.into(),
        ..read_only
    };
    assert_refused(vm.create_mr(&written));
}
