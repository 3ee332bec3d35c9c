//! Builds the copy with all changes in it, as its tests and as the simulation.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{list::Mutant, plant};

/// The targets: the first line of each is for `cargo check`.
// PostgreSQL's unit tests, without those that need its server.
const TESTS: [&str; 8] = [
    "--package=distlock",
    "--package=distlock-tests",
    "--features=distlock/postgres,distlock-tests/metrics,distlock-tests/tracing",
    "--lib",
    "--test=it",
    "--test=telemetry",
    "--message-format=json",
    "--quiet",
];
const SIMULATION: [&str; 3] = ["--package=distlock-simulation", "--message-format=json", "--quiet"];

/// The programs.
#[derive(Debug)]
pub(crate) struct Builds {
    /// Names and paths, the fastest first.
    pub(crate) tests: Vec<(String, PathBuf)>,
    pub(crate) simulation: PathBuf,
    pub(crate) tree: PathBuf,
}

fn cargo(work: &Path, tree: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(tree)
        .stderr(Stdio::inherit())
        // Code that exists only for a change that is not active is unused.
        .env("RUSTFLAGS", "--cap-lints=allow -Awarnings")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_TARGET_DIR", work.join("built"));
    cargo
}

/// Plants all changes that compile; returns their numbers.
pub(crate) fn plant(work: &Path, tree: &Path, mutants: &[Mutant]) -> BTreeSet<usize> {
    let mut ids: BTreeSet<usize> = (0..mutants.len()).collect();
    let mut sources: BTreeMap<&str, String> = BTreeMap::new();
    for mutant in mutants {
        sources.entry(&mutant.file).or_insert_with(|| {
            fs::read_to_string(tree.join(&mutant.file)).expect("a source of the list")
        });
    }
    let lost = tree.join("src/lost.rs");
    let text = fs::read_to_string(&lost).expect("a module that all code can use") + plant::ASKED;
    fs::write(&lost, text).expect("the copy can be written");
    loop {
        for (file, text) in &sources {
            let here: Vec<_> = mutants
                .iter()
                .enumerate()
                .filter(|(id, mutant)| ids.contains(id) && mutant.file == *file)
                .collect();
            let (text, without_place) = plant::plant(text, &here);
            ids.retain(|id| !without_place.contains(id));
            fs::write(tree.join(file), text).expect("the copy can be written");
        }
        let wrong = wrong(work, tree);
        println!("{} planted, {} of them cannot be built", ids.len(), wrong.len());
        if wrong.is_empty() {
            return ids;
        }
        ids.retain(|id| !wrong.contains(id));
    }
}

/// Returns the changes that the compiler refuses.
fn wrong(work: &Path, tree: &Path) -> BTreeSet<usize> {
    let mut wrong = BTreeSet::new();
    for args in [&SIMULATION[..], &TESTS[..]] {
        let output = cargo(work, tree).arg("check").args(args).output().expect("cargo runs");
        let mut other = String::new();
        for message in messages(&output.stdout) {
            let message = &message["message"];
            if message["level"] != "error" {
                continue;
            }
            let spans = message["spans"].as_array().into_iter().flatten();
            let before = wrong.len();
            let mut found = false;
            for span in spans.filter(|span| span["is_primary"] == true) {
                for id in marked(tree, span) {
                    found = true;
                    wrong.insert(id);
                }
            }
            if !found && before == wrong.len() {
                other.push_str(message["rendered"].as_str().unwrap_or_default());
            }
        }
        assert!(output.status.success() || !wrong.is_empty(), "the copy cannot be built:\n{other}");
    }
    wrong
}

fn messages(output: &[u8]) -> impl Iterator<Item = Value> {
    let text = String::from_utf8_lossy(output).into_owned();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.into_iter().filter_map(|line| serde_json::from_str(&line).ok())
}

/// Returns the numbers of changes on the lines of a span.
fn marked(tree: &Path, span: &Value) -> Vec<usize> {
    let file = span["file_name"].as_str().unwrap_or_default();
    let name = file.rsplit_once("src/").map_or(file, |(_, name)| name);
    let Ok(text) = fs::read_to_string(tree.join("src").join(name)) else { return Vec::new() };
    let line = |key| usize::try_from(span[key].as_u64().unwrap_or(1)).unwrap_or(1);
    let (first, last) = (line("line_start"), line("line_end"));
    let lines = text.lines().skip(first - 1).take(last - first + 1);
    let marks = lines.flat_map(|line| line.split("/*M").skip(1));
    marks.filter_map(|mark| mark.split_once("*/")?.0.parse().ok()).collect()
}

/// Builds the programs.
pub(crate) fn build(work: &Path, tree: &Path) -> Builds {
    let executables = |args: &[&str]| {
        let output = cargo(work, tree).args(args).output().expect("cargo runs");
        assert!(output.status.success(), "cargo {args:?}");
        let built = messages(&output.stdout);
        let built = built.filter(|message| message["reason"] == "compiler-artifact");
        let built = built.filter_map(|message| {
            let executable = PathBuf::from(message["executable"].as_str()?);
            Some((message["target"]["name"].as_str()?.to_owned(), executable))
        });
        built.collect::<Vec<_>>()
    };
    let mut tests = executables(&[&["test", "--no-run"], &TESTS[..]].concat());
    tests.sort_by_key(|(name, _)| (name != "distlock", name.clone()));
    let simulation =
        executables(&[&["build", "--profile=simulation"], &SIMULATION[..]].concat()).remove(0).1;
    Builds { tests, simulation, tree: tree.to_owned() }
}
