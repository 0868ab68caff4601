//! Rules 24 to 32 and 37 to 42: completion queues, sizes of queue pairs, shared receive queues,
//! addresses.

use vrdma_driver::object::{Context, Cq, Pd, QpShape};
use vrdma_driver::{CommandError, Guest};
use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::region::gid_type;
use vrdma_pvrdma::abi::request::{
    CreateCq, CreateQp, CreateSrq, Handle, ModifySrq, QueryQp, qp_type,
};
use vrdma_pvrdma::abi::response::{Created, CreatedCq, CreatedQp};
use vrdma_wire::Gid;

use super::single::{Single, assert_refused};

fn handle(handle: u32) -> Handle {
    Handle {
        handle: handle.into(),
        reserved: 0.into(),
    }
}

/// Sends CREATE_CQ with a changed request.
fn create_cq(change: impl FnOnce(&mut CreateCq)) -> Result<CreatedCq, CommandError> {
    let mut single = Single::new();
    let context = single.context;
    let (mut request, _) = single.vm().cq_request(context, 64);
    change(&mut request);
    single.vm().ask(Command::CreateCq, &request)
}

#[test]
fn rule_24_a_cq_has_a_power_of_two_of_entries() {
    for entries in [0, 3, 63, 1 << 21, 1 << 31, u32::MAX] {
        assert_refused(create_cq(|request| request.cqe = entries.into()));
    }
    for entries in [1, 2, 64] {
        let created = create_cq(|request| request.cqe = entries.into()).unwrap();
        assert_eq!(created.cqe.get(), entries);
    }
}

#[test]
fn rule_25_a_cq_s_entries_fit_its_pages() {
    for pages in [0, 1, 262_145, u32::MAX] {
        assert_refused(create_cq(|request| request.nchunks = pages.into()));
    }
    create_cq(|request| request.nchunks = 2.into()).unwrap();
    assert_refused(create_cq(|request| request.cqe = 128.into()));
}

/// Creates a CQ of a program, and then a queue pair by a changed request.
fn create_qp(change: impl FnOnce(&mut CreateQp)) -> Result<CreatedQp, CommandError> {
    let mut single = Single::new();
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    let cq = vm.create_cq(context, 64).unwrap();
    let (mut request, _) = vm.qp_request(pd, (&cq, &cq), None, QpShape::RC);
    change(&mut request);
    vm.ask(Command::CreateQp, &request)
}

#[test]
fn rule_26_queue_pairs_are_rc_ud_or_one_gsi_of_the_kernel() {
    for qp_type in [0, 3, 5, 8, 9, 10, 255] {
        assert_refused(create_qp(|request| request.qp_type = qp_type));
    }
    assert_refused(create_qp(|request| request.qp_type = qp_type::GSI));
    create_qp(|request| request.qp_type = qp_type::UD).unwrap();
    let mut single = Single::new();
    let vm = single.vm();
    let pd = vm.create_pd(Context::KERNEL).unwrap();
    let cq = vm.create_cq(Context::KERNEL, 64).unwrap();
    let first = vm.create_qp(pd, (&cq, &cq), None, QpShape::GSI).unwrap();
    assert_refused(vm.create_qp(pd, (&cq, &cq), None, QpShape::GSI));
    vm.destroy_qp(first).unwrap();
    vm.create_qp(pd, (&cq, &cq), None, QpShape::GSI).unwrap();
}

#[test]
fn rule_27_the_cqs_of_a_queue_pair_are_live_and_of_its_context() {
    for nobody in [7, 1 << 20, u32::MAX] {
        assert_refused(create_qp(|request| request.send_cq_handle = nobody.into()));
        assert_refused(create_qp(|request| request.recv_cq_handle = nobody.into()));
    }
    let mut single = Single::new();
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    let ours = vm.create_cq(context, 4).unwrap();
    let other = vm.open().unwrap();
    let theirs = vm.create_cq(other, 4).unwrap();
    let kernels = vm.create_cq(Context::KERNEL, 4).unwrap();
    for foreign in [&theirs, &kernels] {
        assert_refused(vm.create_qp(pd, (&ours, foreign), None, QpShape::RC));
        assert_refused(vm.create_qp(pd, (foreign, &ours), None, QpShape::RC));
    }
}

#[test]
fn rule_28_queues_have_a_power_of_two_of_requests() {
    for count in [0, 3, 1 << 15, 1 << 31, u32::MAX] {
        assert_refused(create_qp(|request| request.max_send_wr = count.into()));
        assert_refused(create_qp(|request| request.max_recv_wr = count.into()));
    }
    create_qp(|request| (request.max_send_wr, request.max_recv_wr) = (1.into(), 1.into())).unwrap();
}

#[test]
fn rule_29_requests_have_a_buffer_and_not_too_many() {
    for count in [0, 33, 1 << 28, u32::MAX] {
        assert_refused(create_qp(|request| request.max_send_sge = count.into()));
        assert_refused(create_qp(|request| request.max_recv_sge = count.into()));
    }
}

#[test]
fn rule_30_rings_fit_the_pages_of_a_queue_pair() {
    assert_refused(create_qp(|request| request.total_chunks = 0.into()));
    assert_refused(create_qp(|request| request.send_chunks = 0.into()));
    assert_refused(create_qp(|request| {
        request.send_chunks = request.total_chunks
    }));
    assert_refused(create_qp(|request| request.send_chunks = u16::MAX.into()));
    let one_less = |request: &mut CreateQp| {
        request.total_chunks = (request.total_chunks.get() - 1).into();
    };
    assert_refused(create_qp(one_less));
    assert_refused(create_qp(|request| {
        request.send_chunks = (request.send_chunks.get() + 1).into();
    }));
    assert_refused(create_qp(|request| request.max_send_wr = 128.into()));
    create_qp(|_| {}).unwrap();
}

#[test]
fn rule_31_a_shared_queue_is_named_by_a_flag_and_is_ours() {
    assert_refused(create_qp(|request| request.is_srq = 2));
    assert_refused(create_qp(|request| request.is_srq = 255));
    assert_refused(create_qp(|request| {
        (request.is_srq, request.srq_handle) = (1, 5.into())
    }));
    let mut single = Single::new();
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    let cq = vm.create_cq(context, 4).unwrap();
    let other_pd = vm.create_pd(context).unwrap();
    let srq = vm.create_srq(other_pd, 4, 1).unwrap();
    assert_refused(vm.create_qp(pd, (&cq, &cq), Some(&srq), QpShape::RC));
    vm.create_qp(other_pd, (&cq, &cq), Some(&srq), QpShape::RC)
        .unwrap();
}

#[test]
fn rule_32_sizes_of_shared_queues() {
    let create = |change: fn(&mut CreateSrq)| {
        let mut single = Single::new();
        let pd = single.pd;
        let (mut request, _) = single.vm().srq_request(pd, 64, 2);
        change(&mut request);
        single.vm().ask::<Created>(Command::CreateSrq, &request)
    };
    let wrong: [fn(&mut CreateSrq); 11] = [
        |request| request.attrs.max_wr = 0.into(),
        |request| request.attrs.max_wr = 3.into(),
        |request| request.attrs.max_wr = (1 << 15).into(),
        |request| request.attrs.max_sge = 0.into(),
        |request| request.attrs.max_sge = 33.into(),
        |request| request.attrs.srq_limit = 65.into(),
        |request| request.srq_type = 1,
        |request| request.nchunks = 1.into(),
        |request| request.nchunks = 262_145.into(),
        |request| request.attrs.max_wr = 128.into(),
        |request| request.attrs.max_sge = u32::MAX.into(),
    ];
    for change in wrong {
        assert_refused(create(change));
    }
    create(|request| request.attrs.srq_limit = 64.into()).unwrap();
}

#[test]
fn rule_37_unknown_objects_are_not_queried_or_destroyed() {
    let mut single = Single::new();
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    let cq = vm.create_cq(context, 4).unwrap();
    let qp = vm.create_qp(pd, (&cq, &cq), None, QpShape::RC).unwrap();
    let dead = qp.handle;
    vm.destroy_qp(qp).unwrap();
    for nobody in [dead, 0, 99, 1 << 24, u32::MAX] {
        let query = QueryQp {
            qp_handle: nobody.into(),
            attr_mask: 0.into(),
        };
        assert_refused(vm.ask::<Created>(Command::QueryQp, &query));
        assert_refused(vm.ask::<Created>(Command::QuerySrq, &handle(nobody)));
        assert_refused(vm.tell(Command::DestroyQp, &handle(nobody)));
        assert_refused(vm.tell(Command::DestroySrq, &handle(nobody)));
        assert_refused(vm.tell(Command::DestroyMr, &handle(nobody)));
    }
    assert_refused(vm.tell(Command::DestroyCq, &handle(cq.handle + 1)));
    assert_refused(vm.tell(Command::DestroyPd, &handle(pd.handle + 1)));
}

/// `device::life` checks with traffic that queues whose destruction was refused are not touched any more.
#[test]
fn rule_38_what_is_in_use_is_not_destroyed() {
    let mut single = Single::new();
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    let cq = vm.create_cq(context, 4).unwrap();
    let srq = vm.create_srq(pd, 4, 1).unwrap();
    let qp = vm
        .create_qp(pd, (&cq, &cq), Some(&srq), QpShape::RC)
        .unwrap();
    assert_refused(vm.destroy_pd(pd));
    assert_refused(vm.tell(Command::DestroyCq, &handle(cq.handle)));
    assert_refused(vm.tell(Command::DestroySrq, &handle(srq.handle)));
    vm.destroy_qp(qp).unwrap();
    vm.destroy_cq(cq).unwrap();
    vm.destroy_srq(srq).unwrap();
    vm.destroy_pd(pd).unwrap();
}

#[test]
fn rule_39_only_the_limit_of_a_shared_queue_changes() {
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    let srq = vm.create_srq(pd, 16, 1).unwrap();
    for (mask, limit) in [(0, 1), (1, 1), (3, 1), (2, 17), (2, u32::MAX)] {
        let mut request = ModifySrq {
            srq_handle: srq.handle.into(),
            attr_mask: mask.into(),
            ..ModifySrq::default()
        };
        request.attrs.srq_limit = limit.into();
        assert_refused(vm.tell(Command::ModifySrq, &request));
    }
    vm.set_srq_limit(&srq, 16).unwrap();
    vm.set_srq_limit(&srq, 0).unwrap();
}

#[test]
fn rule_40_addresses_have_an_index_in_the_table() {
    let mut single = Single::new();
    let length = single.limits().gids;
    let vm = single.vm();
    let gid = Gid::from_ipv4([10, 0, 0, 1].into());
    for index in [length, 256, u32::MAX] {
        assert_refused(vm.bind_gid(index, gid));
    }
    vm.bind_gid(length - 1, gid).unwrap();
    vm.bind_gid(length - 1, Gid::from_ipv4([10, 0, 0, 2].into()))
        .unwrap();
}

#[test]
fn rule_41_addresses_are_unicast_and_of_the_advertised_type() {
    let mut single = Single::new();
    let vm = single.vm();
    let gid = Gid::from_ipv4([10, 0, 0, 1].into());
    for wrong in [0, gid_type::ROCE_V1, 3, 255] {
        let mut request = vm.bind_request(1, gid);
        request.gid_type = wrong;
        assert_refused(vm.tell(Command::CreateBind, &request));
    }
    assert_refused(vm.bind_gid(1, Gid::default()));
    assert_refused(vm.bind_gid(1, Gid([0xff; 16])));
    vm.bind_gid(1, gid).unwrap();
}

#[test]
fn rule_42_addresses_are_removed_by_index() {
    let mut single = Single::new();
    let length = single.limits().gids;
    let vm = single.vm();
    let gid = vm.gid();
    for index in [length, 256, u32::MAX] {
        assert_refused(vm.unbind_gid(index, gid));
    }
    vm.unbind_gid(0, gid).unwrap();
    assert_eq!(vm.device.snapshot().gids, []);
}

/// A queue pair of the single program, for tests in other modules.
pub(crate) fn queue_pair(vm: &mut Guest, pd: Pd, shape: QpShape) -> (Cq, vrdma_driver::object::Qp) {
    let cq = vm.create_cq(pd.context, 64).unwrap();
    let qp = vm.create_qp(pd, (&cq, &cq), None, shape).unwrap();
    (cq, qp)
}
