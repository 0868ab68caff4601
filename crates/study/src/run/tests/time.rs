//! Runs with limited time, by a clock that only turns move.

use super::*;

impl Scene {
    fn of_minutes(minutes: u64) -> Self {
        Self {
            time: Some(Duration::from_secs(60 * minutes)),
            ..Self::new()
        }
    }
}

fn turns(results: &Results, key: &str) -> usize {
    let key = key.parse().unwrap();
    results.cell(&key).map_or(0, |cell| cell.repetitions.len())
}

fn reason<'a>(results: &'a Results, key: &str) -> &'a str {
    let cell = results.cell(&key.parse().unwrap()).unwrap();
    cell.reason.as_deref().unwrap_or_default()
}

#[test]
fn what_the_time_does_not_reach_says_so_and_is_measured_later() {
    let mut scene = Scene::new();
    scene.time = Some(Duration::ZERO);
    let mut bench = Fake::default();
    let (results, end) = scene.run(&["s4/write-lat/F"], &mut bench);
    assert_eq!((end, bench.asked.borrow().len()), (End::OutOfTime, 0));
    let reason = results.cells[0].reason.clone().unwrap();
    assert!(
        reason.starts_with("not reached in the 0 minutes"),
        "{reason}"
    );

    scene.time = None;
    let (results, end) = scene.run(&["s4/write-lat/F"], &mut bench);
    assert_eq!(end, End::Complete);
    assert_eq!(
        (results.cells[0].successes(), &results.cells[0].reason),
        (2, &None)
    );
}

/// Four tenants at once take much longer than estimated.
fn tenants_are_slow(setting: Setting) -> u64 {
    if setting.tenants > 1 { 600 } else { 1 }
}

#[test]
fn a_slow_group_costs_the_later_ones_one_turn() {
    let scene = Scene::of_minutes(16);
    let mut bench = Fake {
        pace: Some((&scene.clock, tenants_are_slow)),
        ..Fake::default()
    };
    let names = ["s1/mpi-send", "s2/mpi-barrier", "s4/write-lat/F"];
    let (results, end) = scene.run(&names, &mut bench);
    assert_eq!(end, End::OutOfTime);
    // Its share was over with the first slow cell; later there was time for another, but not for all.
    assert_eq!(turns(&results, "s1/mpi-send/host-rdma-one"), 1);
    let slow = bench.asked.borrow();
    let slow = slow.iter().filter(|setting| setting.tenants > 1).count();
    assert_eq!(slow, 2);
    for later in [
        "s2/mpi-barrier/native",
        "s2/mpi-barrier/vm-core",
        "s4/write-lat/F",
    ] {
        assert_eq!(turns(&results, later), 2, "{later}");
    }
    let last = reason(&results, "s1/mpi-send/containers-tcp-four");
    assert!(last.starts_with("not reached in the 16 minutes"), "{last}");
}

#[test]
fn rivals_take_turns_inside_a_share() {
    let scene = Scene::of_minutes(600);
    let mut bench = Fake {
        pace: Some((&scene.clock, |_| 1)),
        ..Fake::default()
    };
    let (_, end) = scene.run(&["s2/mpi-lat", "s2/mpi-bw"], &mut bench);
    let [native, guest] = settings();
    assert_eq!(end, End::Complete);
    assert_eq!(
        *bench.asked.borrow(),
        [[native, guest, native, guest]; 2].concat()
    );
}

/// Turns take longer than the shares, since the time is too short for all.
#[test]
fn every_measure_has_its_first_rivals_before_any_has_more() {
    let scene = Scene::of_minutes(1);
    let mut bench = Fake {
        pace: Some((&scene.clock, |_| 7)),
        ..Fake::default()
    };
    let (results, end) = scene.run(&["s2/mpi-lat", "s2/mpi-bw", "s2/mpi-rate"], &mut bench);
    assert_eq!(end, End::OutOfTime);
    for measure in ["mpi-lat", "mpi-bw", "mpi-rate"] {
        for configuration in ["native", "virtual"] {
            let key = format!("s2/{measure}/{configuration}");
            assert!(turns(&results, &key) >= 1, "{key}");
        }
    }
    assert_eq!(bench.asked.borrow().len(), 60 / 7);
}

#[test]
fn what_an_earlier_run_said_of_unreached_cells_is_forgotten() {
    let mut scene = Scene::of_minutes(0);
    let names = ["s4/write-lat/F", "s2/mpi-lat"];
    scene.run(&names, &mut Fake::default());
    // Another run, which is interrupted before it comes to them.
    scene.time = None;
    let mut bench = Fake {
        stop_after: Some((1, &scene.stop)),
        ..Fake::default()
    };
    let (results, end) = scene.run(&names, &mut bench);
    assert_eq!(end, End::Interrupted);
    let told = reason(&results, "s2/mpi-lat/virtual");
    assert!(
        told.starts_with("not reached before the run was interrupted"),
        "{told}"
    );
    // And a run that does not include them.
    scene.stop.store(false, Ordering::Relaxed);
    let (results, _) = scene.run(&["s4/write-lat/F"], &mut Fake::default());
    assert_eq!(results.cell(&"s2/mpi-lat/virtual".parse().unwrap()), None);
    assert_eq!(turns(&results, "s2/mpi-lat/native"), 1, "it has a figure");
}

#[test]
fn a_figure_stays_where_there_is_no_room_any_more() {
    let scene = Scene::new();
    let key = "s1/mpi-send/vms-rdma-four";
    scene.run(&[key], &mut Fake::default());
    let record = scene.folder().cell(&key.parse().unwrap()).unwrap().unwrap();
    let mut one_turn = record.clone();
    one_turn.repetitions.truncate(1);
    scene.folder().keep(&one_turn).unwrap();
    let mut bench = Fake::default();
    let small = Room {
        available_mib: 2000,
        ..ROOM
    };
    let (results, end) = scene.run_in(small, &[key], &mut bench);
    assert_eq!((turns(&results, key), end), (1, End::Complete));
    assert!(bench.asked.borrow().is_empty());
    assert!(reason(&results, key).contains("MiB free"));
}
