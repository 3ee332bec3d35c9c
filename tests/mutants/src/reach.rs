//! Which test reaches which change.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{
    builds::Builds,
    program::{End, each, run},
};

/// A test that takes longer is not used.
const MOST: Duration = Duration::from_secs(60);

/// One test: the program, its name, and its duration.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) program: PathBuf,
    pub(crate) name: String,
    pub(crate) takes: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// By change, the fastest first.
    pub(crate) tests: BTreeMap<usize, Vec<Test>>,
    /// The changes that the simulation reaches.
    pub(crate) simulated: BTreeSet<usize>,
}

pub(crate) fn reach(work: &Path, builds: &Builds, jobs: usize) -> Reach {
    let mut all = Vec::new();
    for (_, program) in &builds.tests {
        let list = Command::new(program).args(["--list", "--format=terse"]).output();
        let list = String::from_utf8(list.expect("a test lists itself").stdout).expect("text");
        let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
        all.extend(names.map(|name| (program.clone(), name.to_owned())));
    }
    let reach = Mutex::new(Reach::default());
    each(&all, jobs, |(program, name), job| {
        let (file, log) = (work.join(format!("reached-{job}")), work.join(format!("log-{job}")));
        drop(fs::remove_file(&file));
        let began = Instant::now();
        let mut test = Command::new(program);
        test.args(["--exact", name]).env("REACHED", &file).current_dir(&builds.tree);
        match run(&mut test, &log, MOST) {
            End::Passed => {}
            end => return println!("{name}: {end:?} without a change; not used"),
        }
        let test = Test { program: program.clone(), name: name.clone(), takes: began.elapsed() };
        for id in reached(&file) {
            let mut reach = reach.lock().expect("no thread panics while it is locked");
            reach.tests.entry(id).or_default().push(test.clone());
        }
    });
    let mut reach = reach.into_inner().expect("no thread panics while it is locked");
    for tests in reach.tests.values_mut() {
        tests.sort_by_key(|test| test.takes);
    }
    let file = work.join("reached-simulated");
    drop(fs::remove_file(&file));
    let mut simulation = Command::new(&builds.simulation);
    simulation.args(["--seeds", "600", "--no-shrink"]).env("REACHED", &file);
    let end = run(&mut simulation, &work.join("log"), MOST * 5);
    assert!(end == End::Passed, "the simulation without a change: {end:?}");
    reach.simulated = reached(&file).collect();
    reach
}

fn reached(file: &Path) -> impl Iterator<Item = usize> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>().into_iter()
}
