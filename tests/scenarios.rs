//! Checks that the table of faults names existing tests, and that its claims about the sources are
//! true.

#![allow(clippy::expect_used, clippy::panic)] // also outside of the test functions

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// Returns all sources below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns the files' texts by their names in the table.
fn files() -> HashMap<String, String> {
    let mut files = HashMap::new();
    for path in ["src", "tests", "cli/src"].map(|folder| sources(&root().join(folder))).concat() {
        let below = path.strip_prefix(root()).expect("a path below the root").with_extension("");
        let mut name = below.to_str().expect("a name").to_owned();
        for folder in ["tests/it/common/cases/", "tests/it/", "src/backend/", "tests/", "src/"] {
            if let Some(rest) = name.strip_prefix(folder) {
                name = rest.to_owned();
                break;
            }
        }
        // Unit tests of the command use the name of its folder of tests.
        if let Some(rest) = name.strip_prefix("cli/src/") {
            name = format!("cli/{rest}");
        }
        let text = fs::read_to_string(&path).expect("a text");
        files.entry(name.replace('/', "::")).or_insert_with(String::new).push_str(&text);
    }
    files
}

/// Returns `true` if a file has this test.
fn is_there(files: &HashMap<String, String>, test: &str) -> bool {
    let (file, name) = test.rsplit_once("::").expect("a file and a name");
    let text = files.get(file).or_else(|| files.get(file.strip_suffix("::tests")?));
    let starts = [format!("fn {name}("), format!("fn {name}<")];
    text.is_some_and(|text| starts.iter().any(|start| text.contains(start)))
}

/// Returns the numbers and the last cells of the rows.
fn rows(table: &str) -> Vec<(u32, &str)> {
    fn row(line: &str) -> Option<(u32, &str)> {
        let cells: Vec<_> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let number = cells[0].parse().ok()?;
        assert_eq!(cells.len(), 4, "{line}");
        Some((number, cells[3]))
    }
    table.lines().filter_map(row).collect()
}

#[test]
fn every_scenario_has_its_test() {
    let table = fs::read_to_string(root().join("tests/SCENARIOS.md")).expect("the table");
    let (rows, files) = (rows(&table), files());
    let kinds =
        fs::read_to_string(root().join("tests/torture/src/fault.rs")).expect("the kinds of faults");
    let numbers: Vec<_> = rows.iter().map(|(number, _)| *number).collect();
    assert!(numbers.len() > 100, "the rows are not found");
    assert!(numbers.is_sorted_by(|a, b| a < b), "rows out of order: {numbers:?}");
    for (number, place) in rows {
        let mut named = 0;
        for test in place.split('`').skip(1).step_by(2).filter(|quoted| quoted.contains("::")) {
            assert!(is_there(&files, test), "{number}: there is no {test}");
            named += 1;
        }
        // A list of kinds of faults ends with the sentence.
        for list in place
            .split("orture: ")
            .skip(1)
            .map(|rest| rest.split([';', '.', '`']).next().unwrap_or_default())
        {
            for kind in list
                .split(", ")
                .map(str::trim)
                .filter(|kind| !kind.starts_with("all ") && !kind.starts_with("on "))
            {
                assert!(
                    kinds.contains(&format!("\"{kind}\"")),
                    "{number}: torture has no faults of the kind {kind:?}"
                );
            }
        }
        let excused = ["orture: ", "Not run here: "].iter().any(|words| place.contains(words));
        assert!(named > 0 || excused, "{number}: neither a test nor a reason");
    }
}

#[test]
fn every_peer_check_names_an_existing_test() {
    let table = fs::read_to_string(root().join("docs/design/peers-tests.md")).expect("the table");
    let (files, mut named) = (files(), 0);
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        for test in row.split('`').skip(1).step_by(2).filter(|quoted| quoted.contains("::")) {
            // Names with a leading capital are types of the library.
            if !test.starts_with(char::is_uppercase) {
                assert!(is_there(&files, test), "there is no {test}");
                named += 1;
            }
        }
    }
    assert!(named > 60, "{named}");
}

/// Deadlines use clocks that cannot be set: `CLOCK_BOOTTIME` for sessions, and tokio's monotonic
/// clock for pauses and timeouts.
#[test]
fn nothing_reads_the_wall_clock() {
    let mut boottime = false;
    for path in sources(&root().join("src")) {
        let text = fs::read_to_string(&path).expect("a text");
        for wall in ["SystemTime::now", "Realtime", "chrono::", "clock::wall"] {
            // These files may read it: for the time in a key, which only people read, and for jobs
            // that are due by the wall clock.
            let files: &[_] = match wall {
                "clock::wall" => &["signature.rs", "period.rs"],
                _ => &["runtime/clock.rs"],
            };
            let allowed = files.iter().any(|file| path.ends_with(file));
            assert!(allowed || !text.contains(wall), "{wall} in {}", path.display());
        }
        boottime |= text.contains("ClockId::Boottime");
    }
    assert!(boottime, "no file reads CLOCK_BOOTTIME");
}
