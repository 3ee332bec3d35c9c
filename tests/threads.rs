//! Checks the list of objects that several threads share, `docs/design/threads.md`: it names each
//! of them, its scenarios exist, and a planted race proves that each scenario can fail.

#![allow(clippy::expect_used, clippy::panic)] // also outside of the test functions

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, iter,
    path::Path,
};

const LIST: &str = "docs/design/threads.md";

/// The types of shared objects that have a parameter.
const GENERIC: [&str; 10] = [
    "AsyncMutex",
    "LazyLock",
    "Mutex",
    "OnceCell",
    "OnceLock",
    "Receiver",
    "RwLock",
    "Sender",
    "UnboundedReceiver",
    "UnboundedSender",
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Adds the sources below a folder, by their names below `src/`.
fn add(sources: &mut BTreeMap<String, String>, folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        if path.is_dir() {
            add(sources, &path, &format!("{prefix}{name}/"));
        } else if name.ends_with(".rs") {
            sources.insert(format!("{prefix}{name}"), fs::read_to_string(&path).expect("a text"));
        }
    }
}

/// Returns `true` for an attribute that compiles the next item only in unit tests.
fn is_for_tests(line: &str) -> bool {
    let words: Vec<_> = line.split(|c: char| !c.is_alphanumeric()).collect();
    line.starts_with("#[cfg(") && words.contains(&"test") && !line.contains("not(test)")
}

/// Returns the lines before the unit tests, and the names of modules of unit tests.
fn without_tests(text: &str) -> (Vec<&str>, Vec<String>) {
    let (mut lines, mut modules) = (Vec::new(), Vec::new());
    let mut for_tests = false;
    for line in text.lines() {
        if is_for_tests(line) {
            for_tests = true;
        } else if for_tests && !line.starts_with("#[") {
            for_tests = false;
            let module = line.split_once("mod ").map(|(_, module)| module);
            match module.map(|module| module.trim_end_matches(" {")) {
                Some(module) if module.ends_with(';') => {
                    modules.push(module.trim_end_matches(';').to_owned());
                }
                Some(_) => break,
                None => {}
            }
        } else {
            lines.push(line);
        }
    }
    (lines, modules)
}

/// Returns the words of a line, each with the text that follows it.
fn words(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = line;
    iter::from_fn(move || {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let text = &rest[rest.find(is_part)?..];
        let (word, after) = text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()));
        rest = after;
        Some((word, after))
    })
}

/// Returns `true` if a line names the type of a shared object. `semaphores`: a semaphore is
/// tokio's.
fn is_shared(line: &str, semaphores: bool) -> bool {
    words(line).any(|(word, after)| {
        let is_type = !after.starts_with("::");
        let is_atomic = word.strip_prefix("Atomic").is_some_and(|of| !of.is_empty());
        GENERIC.contains(&word) && after.starts_with('<')
            || is_type && (is_atomic || matches!(word, "Barrier" | "Condvar" | "Notify"))
            || is_type && semaphores && word == "Semaphore"
    })
}

/// Returns the names of the fields, statics and tuple structs that are shared objects.
fn objects(lines: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut import, mut signature, mut local) = (false, false, false);
    let semaphores = lines.iter().any(|line| {
        line.starts_with("use tokio::sync") && words(line).any(|(word, _)| word == "Semaphore")
    });
    for line in lines.iter().map(|line| line.trim()) {
        if line.starts_with("//") {
            continue;
        }
        let first = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub(super) "));
        let line = first.or(line.strip_prefix("pub ")).unwrap_or(line);
        import |= line.starts_with("use ");
        if import {
            import = !line.ends_with(';');
            continue;
        }
        signature |= words(line).any(|(word, after)| word == "fn" && after.starts_with(' '));
        if signature {
            signature = !line.ends_with(['{', ';', '}']);
            continue;
        }
        if ["impl", "let ", "type "].iter().any(|start| line.starts_with(start)) {
            continue;
        }
        local = (local || line.starts_with("thread_local!")) && line != "}";
        let item = line.strip_prefix("struct ").or(line.strip_prefix("static "));
        if local && line.starts_with("static ") || !local && is_shared(line, semaphores) {
            let name = words(item.unwrap_or(line)).next().map_or("", |(name, _)| name);
            found.insert(name.to_owned());
        }
    }
    found
}

/// Returns the shared objects of each file.
fn shared(sources: &BTreeMap<String, String>) -> BTreeMap<String, BTreeSet<String>> {
    let (mut found, mut tests) = (BTreeMap::new(), Vec::new());
    for (file, text) in sources {
        let (lines, modules) = without_tests(text);
        let module = file.trim_end_matches(".rs");
        let folder = module.strip_suffix("/mod").unwrap_or(module);
        tests.extend(modules.iter().map(|module| format!("{folder}/{module}")));
        let objects = objects(&lines);
        if !objects.is_empty() {
            found.insert(file.clone(), objects);
        }
    }
    let is_test = |file: &str, test: &str| {
        file.strip_prefix(test).is_some_and(|rest| rest.starts_with(['.', '/']))
    };
    found.retain(|file, _| !tests.iter().any(|test| is_test(file, test)));
    found
}

/// The list's row about a file.
struct Row {
    objects: BTreeSet<String>,
    scenarios: Vec<String>,
    reason: Option<String>,
    races: Vec<String>,
}

fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn rows() -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for line in read(LIST).lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [file, objects, _, scenarios, races] = cells[..] else {
            panic!("{LIST}: expected five cells: {line}");
        };
        let reason = scenarios.strip_prefix("none: ").map(str::to_owned);
        let row = Row {
            objects: quoted(objects).into_iter().collect(),
            scenarios: if reason.is_none() { quoted(scenarios) } else { Vec::new() },
            reason,
            races: quoted(races),
        };
        let former = rows.insert(file.trim_matches('`').to_owned(), row);
        assert!(former.is_none(), "{LIST}: {file} has two rows");
    }
    rows
}

#[test]
fn every_shared_object_is_listed() {
    let mut sources = BTreeMap::new();
    add(&mut sources, &root().join("src"), "");
    let listed: BTreeMap<_, _> =
        rows().into_iter().map(|(file, row)| (file, row.objects)).collect();
    let found = shared(&sources);
    for (file, objects) in &found {
        let listed = listed.get(file).unwrap_or_else(|| panic!("{LIST}: no row for {file}"));
        assert_eq!(objects, listed, "{LIST}: the objects of {file}");
    }
    for file in listed.keys() {
        assert!(found.contains_key(file), "{LIST}: {file} has no shared object");
    }
}

#[test]
fn every_scenario_has_a_planted_race() {
    for (file, Row { scenarios, reason, races, .. }) in rows() {
        if reason.is_some_and(|reason| !reason.is_empty()) {
            continue;
        }
        assert!(!scenarios.is_empty(), "{LIST}: {file} has no scenario and no reason");
        assert!(!races.is_empty(), "{LIST}: {file} has no planted race");
        for scenario in &scenarios {
            let (module, name) = scenario.split_once("::").expect("a module and a name");
            let text = read(&format!("tests/interleavings/{module}.rs"));
            assert!(text.contains(&format!("fn {name}()")), "{LIST}: there is no {scenario}");
        }
        for race in races {
            let bug = read(&format!("tests/bugs/{race}.bug"));
            let catches = |scenario: &String| {
                bug.lines().any(|line| line == format!("test: interleavings {scenario}"))
            };
            assert!(scenarios.iter().any(catches), "{LIST}: no scenario of {file} finds {race}");
        }
    }
}

#[test]
fn figures_of_the_list_are_true() {
    let rows = rows();
    let objects = |rows: &[&Row]| rows.iter().map(|row| row.objects.len()).sum::<usize>();
    let all: Vec<_> = rows.values().collect();
    let covered: Vec<_> = rows.values().filter(|row| row.reason.is_none()).collect();
    let figures = format!(
        "{} objects in {} files. Scenarios cover {} objects in {} files",
        objects(&all),
        all.len(),
        objects(&covered),
        covered.len()
    );
    let text = read(LIST).replace('\n', " ");
    assert!(text.contains(&figures), "{LIST}: expected {figures:?}");
}

#[test]
fn shared_objects_are_found_in_any_form() {
    let text = "
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::{Notify, Semaphore, watch};

static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

pub(crate) struct Known(Mutex<Vec<u64>>);

/// Not an `Arc<Mutex<()>>`.
pub(super) struct Shared {
    pub(crate) changed: Notify,
    permits: Semaphore,
    end: watch::Receiver<bool>,
    turn: Arc<AsyncMutex<()>>,
    kind: LockKind,
}

fn lock(
    state: &Mutex<()>,
) -> MutexGuard<'_, ()> {
    let known: Mutex<()> = Mutex::default();
    Shared { changed: Notify::new() }
}

#[cfg(test)]
mod tests {
    static CALLS: AtomicU64 = AtomicU64::new(0);
}
";
    let sources = [
        ("a.rs", text),
        ("b/mod.rs", "#[cfg(test)]\npub(crate) mod fake;\nmod real;"),
        ("b/fake.rs", "struct Fake(Mutex<()>);"),
        ("b/real.rs", "struct Real {\n    made: OnceLock<u8>,\n}"),
    ];
    let sources = sources.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
    let found: Vec<_> = shared(&sources)
        .into_iter()
        .map(|(file, objects)| (file, objects.into_iter().collect::<Vec<_>>().join(" ")))
        .collect();
    let expected = [("a.rs", "Known NEXT WITHIN changed end permits turn"), ("b/real.rs", "made")];
    assert_eq!(found, expected.map(|(file, objects)| (file.to_owned(), objects.to_owned())));
}
