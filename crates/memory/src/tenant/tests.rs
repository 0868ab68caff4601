use super::*;
use crate::waited::COPY_PATIENCE;

fn moved(count: usize) -> Moved {
    Moved {
        buffer: Vec::new(),
        count: Some(count),
    }
}

const HERE: CopyId = (0, 0);

#[test]
fn jobs_are_done_one_after_the_other() {
    let tenant = Tenant::default();
    for count in 0..100 {
        let done = tenant.copy(HERE, move || moved(count));
        assert_eq!(done.unwrap().count, Some(count));
    }
}

/// A tenant that is late each time, by a little less than the patience, costs little and goes on.
#[test]
fn who_is_late_each_time_costs_little_and_goes_on() {
    let tenant = Tenant::default();
    let begun = Instant::now();
    let late = || {
        thread::sleep(COPY_PATIENCE * 9 / 10);
        moved(0)
    };
    let told = (0..100).filter_map(|_| tenant.copy(HERE, late).err());
    let told: Vec<_> = told.collect();
    assert!(told.len() >= 90, "{}", told.len());
    assert!(told.iter().all(|fault| *fault == Fault::Late));
    assert!(begun.elapsed() < PATIENCE * 20);
}

/// Repeats a copy until it is no longer late.
fn outcome(tenant: &Tenant, place: CopyId, job: fn() -> Moved) -> Result<Moved, Fault> {
    loop {
        match tenant.copy(place, job) {
            Err(Fault::Late) => thread::yield_now(),
            outcome => return outcome,
        }
    }
}

#[test]
fn what_is_late_is_done_when_it_can_be() {
    let tenant = Tenant::default();
    let (release, held) = sync_channel::<()>(0);
    let slow = move || {
        let _ = held.recv();
        moved(1)
    };
    assert_eq!(tenant.copy(HERE, slow).err(), Some(Fault::Late));
    assert!(tenant.is_late(HERE.0) && !tenant.is_late(HERE.0 + 1));
    for _ in 0..1000 {
        let next = tenant.copy(HERE, || panic!("begun before the other is done"));
        assert_eq!(next.err(), Some(Fault::Late));
    }
    drop(release);
    let done = outcome(&tenant, HERE, || moved(2)).unwrap();
    assert_eq!(done.count, Some(2));
    assert!(!tenant.is_late(HERE.0));
    assert_eq!(tenant.abandoned.load(Acquire), 0);
}

#[test]
fn what_may_be_done_once_is_asked_for_again_only_if_it_was_not_begun() {
    let tenant = Tenant::default();
    let (release, held) = sync_channel::<()>(0);
    let slow = move || {
        let _ = held.recv();
        moved(1)
    };
    assert_eq!(tenant.copy_once(HERE, slow).err(), Some(Fault::Gone));
    let not_begun = tenant.copy_once(HERE, || panic!("begun after it was told to be late"));
    assert_eq!(not_begun.err(), Some(Fault::Late));
    drop(release);
    assert!(outcome(&tenant, HERE, || moved(2)).is_ok());
    let done = tenant.copy_once(HERE, || moved(3)).unwrap();
    assert_eq!(done.count, Some(3));
}

/// The case of a thread that gets no core until the data path has given up waiting.
#[test]
fn a_job_that_is_taken_back_is_not_done() {
    let taken = Once::default();
    assert!(taken.take_back());
    assert!(taken.run(|| panic!("taken back")).count.is_none());
    let taken = Once::default();
    assert_eq!(taken.run(|| moved(1)).count, Some(1));
    assert!(!taken.take_back());
}

#[test]
fn what_never_comes_is_gone_and_others_go_on() {
    let tenant = Tenant::default();
    let (release, held) = sync_channel::<()>(0);
    let hangs = move || {
        let _ = held.recv();
        moved(0)
    };
    let again = Instant::now();
    assert_eq!(tenant.copy(HERE, hangs).err(), Some(Fault::Late));
    let other = outcome(&tenant, (0, 1), || moved(1)).unwrap();
    assert_eq!(other.count, Some(1));
    assert!(again.elapsed() >= GIVEN_UP);
    assert_eq!(tenant.abandoned.load(Acquire), 1);
    assert_eq!(outcome(&tenant, HERE, || moved(0)).err(), Some(Fault::Gone));
    let again = outcome(&tenant, HERE, || moved(2)).unwrap();
    assert_eq!(again.count, Some(2), "told once");
    drop(release);
    while tenant.abandoned.load(Acquire) > 0 {
        thread::yield_now();
    }
}

#[test]
fn nothing_is_asked_of_who_kept_others_waiting() {
    let tenant = Tenant::default();
    let (release, held) = sync_channel::<()>(0);
    let asked = tenant.ask(move || held.recv());
    assert_eq!(asked.err(), Some(Fault::Late));
    assert!(tenant.is_refused());
    assert_eq!(tenant.ask(|| 7).err(), Some(Fault::Gone));
    drop(release);
}

#[test]
fn a_descriptor_of_a_job_that_is_not_done_is_closed_all_the_same() {
    let tenant = Tenant::default();
    let (read, write) = rustix::pipe::pipe().unwrap();
    drop(tenant.keep(write));
    // The pipe ends when its last writer is closed.
    assert_eq!(rustix::io::read(&read, &mut [0]), Ok(0));
}
