//! A guest's file that shrinks while it is mapped: the access faults, the process lives on.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use vrdma_memory::{CopyFault, Fault, Memory, PAGE, Protection, Region, Right, Space, Spot};

const PAGES: u64 = 16;

/// A space with one truncatable file, and the descriptor to truncate it by.
fn guest() -> (Space, std::os::fd::OwnedFd) {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, PAGES * PAGE).unwrap();
    let space = Space::new();
    space
        .map(
            0,
            PAGES * PAGE,
            Protection::BOTH,
            file.try_clone().unwrap(),
            0,
        )
        .unwrap();
    (space, file)
}

#[test]
fn reads_and_writes_of_the_hole_fault_and_the_map_is_lost() {
    for write in [false, true] {
        let (space, file) = guest();
        let view = space.view();
        view.write(0, &[5; 64]).unwrap();
        ftruncate(&file, PAGE).unwrap();
        view.write(8, &[6; 8]).unwrap();
        let touched = match write {
            true => view.store_u32_release(2 * PAGE, 1),
            false => view.read(PAGE - 8, &mut [0; 16]),
        };
        assert_eq!(touched, Err(Fault::Gone));
        assert_eq!(
            view.load_u32_acquire(0),
            Err(Fault::Gone),
            "the rest of the map is lost too"
        );
        assert_eq!(view.check(0, 8, Right::Read), Err(Fault::Gone));
    }
}

#[test]
fn a_copy_says_which_guest_shrank() {
    let ((steady, _file), (shrunk, file)) = (guest(), guest());
    ftruncate(&file, 0).unwrap();
    let (steady, shrunk) = (steady.view(), shrunk.view());
    let bus = Region::Bus;
    let all = PAGES * PAGE;
    let from = Memory::copy(
        &steady,
        Spot::new(&bus, 0),
        &shrunk,
        Spot::new(&bus, 0),
        all,
    );
    assert_eq!(from, Err(CopyFault::Source));
    assert_eq!(
        steady.check(0, all, Right::Write),
        Ok(()),
        "the other guest is not touched"
    );

    let (shrunk, file) = guest();
    ftruncate(&file, 0).unwrap();
    let to = Memory::copy(
        &shrunk.view(),
        Spot::new(&bus, 0),
        &steady,
        Spot::new(&bus, 0),
        all,
    );
    assert_eq!(to, Err(CopyFault::Destination));
}

#[test]
fn atomics_on_the_hole_fault() {
    let (space, file) = guest();
    ftruncate(&file, 0).unwrap();
    assert_eq!(
        space
            .view()
            .fetch_update(&Region::Bus, PAGE, &|old| old + 1),
        Err(Fault::Gone)
    );
}

#[test]
fn a_lost_map_can_be_replaced() {
    let (space, file) = guest();
    ftruncate(&file, 0).unwrap();
    assert_eq!(space.view().load_u32_acquire(0), Err(Fault::Gone));
    assert_eq!(space.unmap(0, PAGES * PAGE).unwrap().bytes(), PAGES * PAGE);
    ftruncate(&file, PAGES * PAGE).unwrap();
    space
        .map(0, PAGES * PAGE, Protection::BOTH, file, 0)
        .unwrap();
    assert_eq!(space.view().load_u32_acquire(0), Ok(0));
}

#[test]
fn many_threads_hit_the_same_hole() {
    let (space, file) = guest();
    ftruncate(&file, 0).unwrap();
    std::thread::scope(|scope| {
        for page in 0..8 {
            let space = &space;
            scope.spawn(move || {
                assert_eq!(
                    space.view().read(page * PAGE, &mut [0; 4096]),
                    Err(Fault::Gone)
                );
            });
        }
    });
}

/// Runs one hidden branch of a test of this file in a process of its own.
fn signal_of_child(test: &str) -> Option<i32> {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program);
    child
        .args([test, "--exact", "--nocapture"])
        .env("VRDMA_TEST_DIES", "1");
    child.output().unwrap().status.signal()
}

fn is_child() -> bool {
    std::env::var_os("VRDMA_TEST_DIES").is_some()
}

#[test]
fn a_hole_in_memory_that_is_no_guests_still_kills() {
    if !is_child() {
        let signal = signal_of_child("a_hole_in_memory_that_is_no_guests_still_kills");
        assert_eq!(signal, Some(libc::SIGBUS));
        return;
    }
    let (_space, _file) = guest();
    let file = memfd_create("ours", MemfdFlags::CLOEXEC).unwrap();
    // SAFETY: the kernel chooses the place; the read of the empty file ends the process.
    unsafe {
        let at = mmap(
            ptr::null_mut(),
            4096,
            ProtFlags::READ,
            MapFlags::SHARED,
            &file,
            0,
        )
        .unwrap();
        ptr::read_volatile(at.cast::<u8>());
    }
}

#[test]
fn a_signal_that_somebody_sent_still_kills() {
    if !is_child() {
        let signal = signal_of_child("a_signal_that_somebody_sent_still_kills");
        assert_eq!(signal, Some(libc::SIGBUS));
        return;
    }
    let (_space, _file) = guest();
    // SAFETY: raises a signal in this process, which ends it.
    unsafe { libc::raise(libc::SIGBUS) };
}
