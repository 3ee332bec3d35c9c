//! Tests each change.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::Duration,
};

use crate::{
    builds::Builds,
    list::Mutant,
    program::{End, each, run},
    reach::{Reach, Test},
};

/// The number of tests that one process runs.
const TOGETHER: usize = 12;
/// The time limit of the seeds.
const MOST: Duration = Duration::from_secs(60);
/// How long tests may take in addition to their time without a change, and the factor of that time.
const TESTS: (Duration, u32) = (Duration::from_secs(10), 4);

/// Prints the result of each change, and writes it to `report.txt`.
pub(crate) fn hunt(
    work: &Path,
    mutants: &[Mutant],
    planted: &BTreeSet<usize>,
    builds: &Builds,
    reach: &Reach,
    seeds: u32,
    jobs: usize,
) {
    let ids: Vec<usize> = planted.iter().copied().collect();
    let caught = Mutex::new(BTreeMap::new());
    let note = |id: usize, by: String| {
        println!("{id} {}: {by}", mutants[id].name);
        caught.lock().expect("no thread panics while it is locked").insert(id, by);
    };
    each(&ids, jobs, |&id, job| {
        let tests = reach.tests.get(&id).map_or(&[][..], Vec::as_slice);
        if let Some(by) = by_tests(id, tests, builds, &work.join(format!("log-{job}"))) {
            note(id, by);
        }
    });
    let left: Vec<usize> = {
        let caught = caught.lock().expect("no thread panics while it is locked");
        ids.iter().copied().filter(|id| !caught.contains_key(id)).collect()
    };
    println!("{} are left to the seeds", left.len());
    each(&left, 2, |&id, job| {
        if reach.simulated.contains(&id) {
            let mut simulation = Command::new(&builds.simulation);
            simulation
                .args(["--seeds", &seeds.to_string(), "--no-shrink", "--failures", "1"])
                .env("MUTANT", id.to_string());
            let mut end = End::Late;
            // The machine may be busy.
            for most in [MOST, MOST * 3] {
                if end == End::Late {
                    end = run(&mut simulation, &work.join(format!("log-{job}")), most);
                }
            }
            if end != End::Passed {
                note(id, format!("the simulation: {end:?}"));
            }
        }
    });
    let caught = caught.into_inner().expect("no thread panics while it is locked");
    let line = |id: usize| {
        let by = caught.get(&id).map_or("MISSED", String::as_str);
        format!("{id} {} [{}]: {by}\n", mutants[id].name, mutants[id].replacement)
    };
    let report: String = ids.iter().map(|id| line(*id)).collect();
    fs::write(work.join("report.txt"), report).expect("the report is written");
    let missed = ids.iter().filter(|id| !caught.contains_key(id));
    missed.clone().for_each(|id| print!("{}", line(*id)));
    let (all, missed) = (ids.len(), missed.count());
    println!("{} of {all} caught, {missed} missed", all - missed);
}

/// Returns the test that fails twice with this change.
fn by_tests(id: usize, tests: &[Test], builds: &Builds, log: &Path) -> Option<String> {
    let mut programs: BTreeMap<&PathBuf, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        programs.entry(&test.program).or_default().push(test);
    }
    let attempt = |program: &Path, tests: &[&Test], again: bool| {
        let mut command = Command::new(program);
        command.args(tests.iter().map(|test| &test.name)).args(["--exact", "--test-threads=4"]);
        command.env("MUTANT", id.to_string()).current_dir(&builds.tree);
        let usual = tests.iter().map(|test| test.takes).sum::<Duration>();
        let most = TESTS.0 + usual * TESTS.1;
        run(&mut command, log, if again { most * 4 } else { most })
    };
    for (_, program) in &builds.tests {
        let Some(tests) = programs.get(program) else { continue };
        for tests in tests.chunks(TOGETHER) {
            // In parallel a test may time out: it has to fail again alone, with more time.
            if attempt(program, tests, false) != End::Passed {
                let text = fs::read_to_string(log).unwrap_or_default();
                let failed = text
                    .lines()
                    .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
                let failed: Vec<&Test> = failed
                    .filter_map(|name| tests.iter().find(|test| test.name == name).copied())
                    .collect();
                let again =
                    failed.iter().find(|test| attempt(program, &[test], true) != End::Passed);
                if let Some(test) = again {
                    return Some(test.name.clone());
                }
                // Aborted or hanging.
                if failed.is_empty() && attempt(program, tests, true) != End::Passed {
                    return Some("a test that does not end".into());
                }
            }
        }
    }
    None
}
