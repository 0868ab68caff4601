//! Turns, failures and resumption, with a bench that measures nothing.

use std::cell::{Cell as Now, RefCell};
use std::fs;

use anyhow::bail;
use tempfile::TempDir;

use super::*;
use crate::hardware::{Running, Tree};
use crate::machine::Machine;
use crate::plan::{Scale, chosen};

mod time;

const OUTPUT: &str = " #bytes #iterations t_min t_max t_typical t_avg\n 2 10 1.0 9.0 2.5 3.0\n";

/// A clock that only turns move.
#[derive(Default)]
struct Slow(Now<Duration>);

impl Clock for Slow {
    fn now(&self) -> Duration {
        self.0.get()
    }
}

/// Seconds that a turn of a setting takes.
type Pace = fn(Setting) -> u64;

/// Records what it was asked; `fails` selects the setting that fails, `stop_after` sets the flag, `pace` moves the
/// clock.
#[derive(Default)]
struct Fake<'a> {
    asked: RefCell<Vec<Setting>>,
    fails: Option<Setting>,
    stop_after: Option<(usize, &'a AtomicBool)>,
    pace: Option<(&'a Slow, Pace)>,
}

impl Bench for Fake<'_> {
    fn begin(&mut self, _setting: Setting, _tool: &Tool) -> Result<()> {
        Ok(())
    }

    fn measure(
        &mut self,
        setting: Setting,
        tool: &Tool,
        _commands: &Commands,
        _limit: Duration,
    ) -> Result<String> {
        self.asked.borrow_mut().push(setting);
        if let Some((clock, pace)) = self.pace {
            let seconds = Duration::from_secs(pace(setting));
            clock.0.set(clock.0.get() + seconds);
        }
        if let Some((turns, stop)) = self.stop_after {
            stop.store(self.asked.borrow().len() >= turns, Ordering::Relaxed);
        }
        if self.fails == Some(setting) {
            bail!("the adapter is on fire");
        }
        Ok(match tool {
            Tool::Perftest(_) => OUTPUT.to_owned(),
            _ => "figure 1 2.5 us\n".to_owned(),
        })
    }

    fn release(&mut self, _still: &[Setting]) {}
}

const ROOM: Room = Room {
    cores: 2,
    available_mib: 8192,
};

struct Scene {
    place: TempDir,
    stop: AtomicBool,
    time: Option<Duration>,
    clock: Slow,
}

impl Scene {
    fn new() -> Self {
        Self {
            place: tempfile::tempdir().unwrap(),
            stop: AtomicBool::new(false),
            time: None,
            clock: Slow::default(),
        }
    }

    fn folder(&self) -> Folder {
        Folder::at(self.place.path().join("run"))
    }

    fn run(&self, names: &[&str], bench: &mut Fake) -> (Results, End) {
        self.run_in(ROOM, names, bench)
    }

    fn run_in(&self, room: Room, names: &[&str], bench: &mut Fake) -> (Results, End) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let header = Header::new(Machine::default(), Scale::Short, 2, 7);
        let folder = self.folder();
        let header = folder.open(header).unwrap();
        let runner = Runner {
            folder: &folder,
            header: &header,
            hardware: Hardware::at(Tree::new(self.place.path(), Running), false),
            room,
            stop: &self.stop,
            time: self.time,
            clock: &self.clock,
        };
        runner.run(&chosen(&names).unwrap(), bench).unwrap()
    }
}

fn settings() -> [Setting; 2] {
    use crate::cell::{Endpoint, Transport};
    [Endpoint::Process, Endpoint::Vm].map(|endpoint| Setting::new(endpoint, Transport::Vrdma))
}

#[test]
fn rivals_take_turns() {
    let mut bench = Fake::default();
    let (results, end) = Scene::new().run(
        &["s0/read-lat-events/native", "s0/read-lat-events/virtual"],
        &mut bench,
    );
    let [native, guest] = settings();
    // Each cell warms up before its first turn.
    assert_eq!(
        *bench.asked.borrow(),
        [native, native, guest, guest, native, guest]
    );
    assert_eq!(end, End::Complete);
    let samples = &results.cells[0].figures["2"];
    assert_eq!(
        (samples.values.as_slice(), samples.median),
        ([2.5, 2.5].as_slice(), 2.5)
    );
}

#[test]
fn a_cell_that_fails_is_kept_and_the_run_goes_on() {
    let [native, guest] = settings();
    let mut bench = Fake {
        fails: Some(native),
        ..Fake::default()
    };
    let scene = Scene::new();
    let (results, end) = scene.run(&["s4"], &mut bench);
    assert_eq!(end, End::Complete);
    let by_name = |name: &str| {
        results
            .cells
            .iter()
            .find(|cell| cell.key.configuration == name)
            .unwrap()
    };
    assert_eq!(
        by_name("native").reason.as_deref(),
        Some("the adapter is on fire")
    );
    assert_eq!(by_name("F").successes(), 2);
    assert!(
        by_name("A")
            .reason
            .as_deref()
            .unwrap()
            .contains("no network card")
    );
    // A later run tries it again.
    let mut bench = Fake::default();
    let (results, _) = scene.run(&["s4"], &mut bench);
    assert!(!bench.asked.borrow().contains(&guest));
    assert_eq!(results.cells[0].successes(), 2);
}

#[test]
fn an_interrupted_run_is_resumed() {
    let scene = Scene::new();
    let mut bench = Fake {
        stop_after: Some((2, &scene.stop)),
        ..Fake::default()
    };
    let (results, end) = scene.run(&["s4/write-lat"], &mut bench);
    assert_eq!((results.cells[0].successes(), end), (1, End::Interrupted));
    scene.stop.store(false, Ordering::Relaxed);
    let mut bench = Fake::default();
    let (results, end) = scene.run(&["s4/write-lat"], &mut bench);
    assert_eq!((results.cells[0].successes(), end), (2, End::Complete));
    let native = settings()[0];
    let turns = bench
        .asked
        .borrow()
        .iter()
        .filter(|&&setting| setting == native)
        .count();
    assert_eq!(turns, 2, "a warm-up and the turn that was missing");
}

#[test]
fn a_damaged_cell_is_measured_again_and_put_aside() {
    let scene = Scene::new();
    scene.run(&["s4/write-lat/F"], &mut Fake::default());
    let path = scene.folder().path().join("cells/s4+write-lat+F.json");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let mut bench = Fake::default();
    let (results, _) = scene.run(&["s4/write-lat/F"], &mut bench);
    assert_eq!(results.cells[0].successes(), 2);
    assert!(path.with_extension("damaged").exists());
}

#[test]
fn half_a_file_of_results_is_refused_in_a_sentence() {
    let scene = Scene::new();
    scene.run(&["s4/write-lat/F"], &mut Fake::default());
    let path = scene.folder().results();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = Results::read(&path).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("is damaged or no file of a study"),
        "{error}"
    );
    let error = Results::read(&scene.folder().path().join("none.json")).unwrap_err();
    assert!(error.to_string().starts_with("there is no "), "{error}");
}

#[test]
fn a_folder_of_another_machine_or_length_is_refused() {
    let scene = Scene::new();
    scene.run(&["s4/write-lat/F"], &mut Fake::default());
    let machine = Machine {
        cores: 64,
        ..Machine::default()
    };
    let refused = |header| scene.folder().open(header).unwrap_err().to_string();
    let sentence = refused(Header::new(machine, Scale::Short, 2, 9));
    assert!(
        sentence.contains("another machine") && sentence.contains("--out"),
        "{sentence}"
    );
    let sentence = refused(Header::new(Machine::default(), Scale::Full, 2, 9));
    assert!(sentence.contains("other length"), "{sentence}");
}

#[test]
fn what_the_machine_has_no_room_for_is_not_begun() {
    let scene = Scene::new();
    let mut bench = Fake::default();
    let (results, end) = scene.run(&["s2/mpi-allreduce/vm-core-28"], &mut bench);
    assert_eq!(end, End::Complete);
    assert!(bench.asked.borrow().is_empty());
    let reason = results.cells[0].reason.as_deref().unwrap();
    assert!(reason.contains("28 virtual processors"), "{reason}");
    assert_eq!(results.cells[0].setting, None);
}
