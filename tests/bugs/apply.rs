//! Reads the files of this folder, and plants the bugs that they describe. `docker/bugs` compiles
//! this file separately, and `tests/bugs.rs` includes it as a module.
//!
//! A file `NAME.bug` describes the bug, the tests that must catch it, and the replacement:
//!
//! ```text
//! In one or two lines, what the library does wrong.
//!
//! test: BINARY PATH::OF::TEST
//!
//! file: src/some/file.rs
//! find:
//!     lines as they stand there, and nowhere else in the file
//! put:
//!     lines to put in their place
//! ```
//!
//! After the tests, a line `not simulated: WHY` may state why the simulation cannot find it
//! (`docker/simulation --bugs`).
//!
//! BINARY is `memory`, `forked`, `interleavings`, `telemetry`, `etcd`, `zookeeper`, `postgres`,
//! `mysql`, `sqlite`, `redis`, `redlock`, `failover`, `secured`, or `etcd_model`, `redis_model`,
//! `redlock_model`, `zookeeper_model` or `postgres_embedded`, or `lib` for a unit test.
//! `lib:zookeeper` is a unit test that exists only with this feature, and `cli` a unit test of the
//! command. There may be several tests, and several places.

pub(crate) mod needs;

use std::{collections::BTreeMap, fs, path::Path};

use needs::Sources;

/// The binaries of tests, in the order in which they are built and run.
pub(crate) const BINARIES: [&str; 28] = [
    "clusters",
    "lib",
    "cli",
    "memory",
    "forked",
    "sqlite",
    "etcd_model",
    "postgres_embedded",
    "redis_model",
    "redlock_model",
    "zookeeper_model",
    "interleavings",
    "telemetry",
    "lib:etcd",
    "lib:mysql",
    "lib:redis",
    "lib:redlock",
    "lib:postgres",
    "lib:sqlite",
    "lib:zookeeper",
    "redis",
    "redlock",
    "etcd",
    "zookeeper",
    "postgres",
    "mysql",
    "failover",
    "secured",
];

/// A bug as described in its file.
#[derive(Debug)]
pub(crate) struct Bug {
    pub(crate) name: String,
    /// The description, in one line.
    pub(crate) why: String,
    pub(crate) tests: Vec<Test>,
    places: Vec<Place>,
}

/// A test that must catch it.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) binary: String,
    pub(crate) path: String,
}

/// Lines of one file, and their replacement.
#[derive(Debug, Default)]
struct Place {
    file: String,
    find: Vec<String>,
    put: Option<Vec<String>>,
}

impl Bug {
    /// Returns the bugs of a folder, by name.
    pub(crate) fn all(folder: &Path) -> Result<Vec<Self>, String> {
        let failed = |error| format!("{}: {error}", folder.display());
        let mut bugs = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "bug") {
                bugs.push(Self::read(&path)?);
            }
        }
        bugs.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(bugs)
    }

    fn read(path: &Path) -> Result<Self, String> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &text)
    }

    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("{name}.bug: {what}"));
        let (mut why, mut tests, mut places) = (Vec::new(), Vec::new(), Vec::<Place>::new());
        let mut finding = false;
        for line in text.lines() {
            if let Some(file) = line.strip_prefix("file: ") {
                places.push(Place { file: file.to_owned(), ..Place::default() });
                finding = false;
                continue;
            }
            match (places.last_mut(), line) {
                (None, line) => match line.strip_prefix("test: ") {
                    Some(test) => match test.split_once(' ') {
                        Some((binary, path)) if BINARIES.contains(&binary) => {
                            tests.push(Test { binary: binary.to_owned(), path: path.to_owned() });
                        }
                        _ => return wrong(&format!("expected a binary and a test: {test}")),
                    },
                    None if line.is_empty() || line.starts_with("not simulated: ") => {}
                    None => why.push(line),
                },
                (Some(place), "find:") if place.find.is_empty() => finding = true,
                (Some(place), "put:") if place.put.is_none() => place.put = Some(Vec::new()),
                (Some(_), "find:" | "put:") => return wrong("expected file: before another place"),
                (Some(Place { put: Some(put), .. }), line) => put.push(line.to_owned()),
                (Some(place), line) if finding => place.find.push(line.to_owned()),
                (Some(_), line) => return wrong(&format!("unexpected line: {line}")),
            }
        }
        for place in &mut places {
            let Some(put) = &mut place.put else { return wrong("put: is missing") };
            // Blank lines before the next place.
            while put.last().is_some_and(String::is_empty) {
                put.pop();
            }
            if place.find.is_empty() {
                return wrong("find: is missing");
            }
        }
        if !(1..=2).contains(&why.len()) {
            return wrong("describe the bug in one or two lines");
        }
        if tests.is_empty() || places.is_empty() {
            return wrong("a test or a place is missing");
        }
        Ok(Self { name: name.to_owned(), why: why.join(" "), tests, places })
    }

    /// Returns the files that the bug changes, with the change.
    pub(crate) fn plant(&self, root: &Path) -> Result<BTreeMap<String, String>, String> {
        let mut files = BTreeMap::new();
        for Place { file, find, put } in &self.places {
            let wrong = |what: &str| format!("{}.bug: {file}: {what}", self.name);
            let text = match files.remove(file) {
                Some(text) => text,
                None => fs::read_to_string(root.join(file))
                    .map_err(|error| wrong(&error.to_string()))?,
            };
            let lines: Vec<_> = text.lines().collect();
            let mut found = lines
                .windows(find.len())
                .enumerate()
                .filter_map(|(at, window)| (*window == find[..]).then_some(at));
            let (Some(at), None) = (found.next(), found.next()) else {
                let find = find.join("\n");
                return Err(wrong(&format!("this must occur exactly once:\n{find}")));
            };
            let put = put.iter().flatten().map(String::as_str);
            let (before, rest) = lines.split_at(at);
            let with: Vec<_> = before
                .iter()
                .copied()
                .chain(put)
                .chain(rest[find.len()..].iter().copied())
                .collect();
            files.insert(file.clone(), with.join("\n") + "\n");
        }
        Ok(files)
    }
}

/// `apply list FOLDER` prints a line for each test: its binary, its path, the bug's name, the
/// test's needs, and the description. `apply plant FILE TREE` plants a bug in a copy of the
/// sources, and prints the names of the changed files.
#[allow(dead_code)] // when this file is a module
fn main() -> Result<(), String> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list", folder] => {
            let bugs = Bug::all(Path::new(folder))?;
            let sources = Sources::read(&Path::new(folder).join("../.."))?;
            for binary in BINARIES {
                for bug in &bugs {
                    for test in bug.tests.iter().filter(|test| test.binary == binary) {
                        let need = sources.need(test)?;
                        println!("{binary} {} {} {need:?} {}", test.path, bug.name, bug.why);
                    }
                }
            }
        }
        ["plant", file, tree] => {
            let tree = Path::new(tree);
            for (file, text) in Bug::read(Path::new(file))?.plant(tree)? {
                fs::write(tree.join(&file), text).map_err(|error| format!("{file}: {error}"))?;
                println!("{file}");
            }
        }
        _ => return Err("usage: apply list FOLDER | apply plant FILE TREE".to_owned()),
    }
    Ok(())
}
