//! What a test needs besides this machine, according to its source: nothing, servers, or
//! containers.

use std::{collections::BTreeSet, fs, path::Path};

use super::Test;

/// In increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    Nothing,
    /// The servers of `tests/up --local` are sufficient.
    Servers,
    /// It needs containers for something that `tests/up` cannot do with processes.
    Docker,
}

/// The names in `tests/testkit` that need containers.
const CONTAINERS: [&str; 5] = ["OwnServer", "OwnEtcd", "Cut", "HungDisk", "docker("];

/// The sources of the tests that use servers.
pub(crate) struct Sources(Vec<File>);

struct File {
    /// Below `tests/`.
    path: String,
    /// The imported names and their modules.
    imports: BTreeSet<String>,
    items: Vec<Item>,
}

/// A type, or a function with `(` after its name.
struct Item {
    name: String,
    words: BTreeSet<String>,
    needs_docker: bool,
}

/// Returns the words of a text; a called function's name also with `(`.
fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    for line in code {
        let mut rest = line;
        while let Some(start) = rest.find(|c: char| c.is_alphanumeric() || c == '_') {
            rest = &rest[start..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            words.insert(word.to_owned());
            if after.starts_with(['(', ':']) {
                words.insert(format!("{word}("));
            }
            rest = after;
        }
    }
    words
}

/// Returns the name of the item that begins on this line.
fn name_of(line: &str) -> String {
    let mut parts = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut after = |word: &str| parts.find(|part| *part == word).and_then(|_| parts.next());
    let name = if line.contains("fn ") {
        after("fn").map(|name| format!("{name}("))
    } else if line.contains(" for ") {
        after("for").map(str::to_owned)
    } else {
        let upper = |part: &&str| part.starts_with(char::is_uppercase);
        line.split(|c: char| !c.is_alphanumeric()).find(upper).map(str::to_owned)
    };
    name.unwrap_or_default()
}

impl File {
    fn parse(path: String, text: &str) -> Self {
        let mut file = Self { path, imports: BTreeSet::new(), items: Vec::new() };
        // Each item begins with a letter at the start of a line.
        let begins = |line: &&str| line.starts_with(char::is_alphabetic);
        // Inside a module, too.
        let mut within = false;
        let flat = text.lines().map(|line| {
            let module = line.trim_start_matches("pub(crate) ").starts_with("mod ");
            within = (within && line != "}") || (module && line.ends_with('{'));
            line.strip_prefix("    ").filter(|_| within).unwrap_or(line)
        });
        let mut lines = flat.skip_while(|line| !begins(line)).peekable();
        while let Some(first) = lines.next() {
            let mut item = first.to_owned();
            while let Some(line) = lines.next_if(|line| !begins(line)) {
                item += "\n";
                item += line;
            }
            let words = words(&item);
            if first.starts_with("use ") || first.starts_with("pub(crate) use ") {
                file.imports.extend(words);
            } else {
                file.items.push(Item { name: name_of(first), words, needs_docker: false });
            }
        }
        file
    }

    fn stem(&self) -> &str {
        let path = self.path.trim_end_matches(".rs").trim_end_matches("/mod");
        path.rsplit('/').next().unwrap_or(path)
    }

    /// Returns `true` if it imports a name from that file, by its folders or from the same folder.
    fn names(&self, other: &Self) -> bool {
        let folder = |file: &Self| Path::new(&file.path).parent().map(Path::to_owned);
        let mut folders = other.path.split('/').rev().skip(1).filter(|part| *part != "it");
        self.imports.contains(other.stem())
            && (folder(self) == folder(other) || folders.all(|part| self.imports.contains(part)))
    }

    fn docker(&self) -> impl Iterator<Item = &String> {
        self.items.iter().filter(|item| item.needs_docker).map(|item| &item.name)
    }
}

impl Sources {
    /// Reads the sources below the repository's root.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        for place in ["it", "secured", "secured.rs"] {
            add(&mut files, &root.join("tests"), place)?;
        }
        let mut sources = Self(files);
        while sources.spread() {}
        Ok(sources)
    }

    /// Marks users of items that need Docker; returns `true` if any were found.
    fn spread(&mut self) -> bool {
        let mut found = Vec::new();
        for (at, file) in self.0.iter().enumerate() {
            let others = self.0.iter().filter(|other| file.names(other));
            let imported = others
                .flat_map(File::docker)
                .filter(|name| file.imports.contains(name.trim_end_matches('(')));
            let names: BTreeSet<_> =
                file.docker().chain(imported).map(String::as_str).chain(CONTAINERS).collect();
            for (number, item) in file.items.iter().enumerate() {
                if !item.needs_docker && names.iter().any(|name| item.words.contains(*name)) {
                    found.push((at, number));
                }
            }
        }
        for &(at, number) in &found {
            self.0[at].items[number].needs_docker = true;
        }
        !found.is_empty()
    }

    pub(crate) fn need(&self, Test { binary, path }: &Test) -> Result<Need, String> {
        let alone = [
            "lib",
            "cli",
            "memory",
            "sqlite",
            "etcd_model",
            "postgres_embedded",
            "redis_model",
            "redlock_model",
            "zookeeper_model",
            "interleavings",
            "telemetry",
        ];
        if alone.contains(&binary.split(':').next().unwrap_or(binary)) {
            return Ok(Need::Nothing);
        }
        if binary == "forked" {
            let none = ["memory", "sqlite"].contains(&path.as_str());
            return Ok(if none { Need::Nothing } else { Need::Servers });
        }
        let (modules, name) = path.rsplit_once("::").unwrap_or((binary, path));
        let stem = modules.rsplit("::").next().unwrap_or(modules);
        let own = |file: &&File| {
            let path = file.path.trim_start_matches("it/");
            file.stem() == stem && path.split(['/', '.']).next() == Some(binary)
        };
        // A store's own tests, and the shared cases.
        let case = |file: &&File| file.path.starts_with("it/common/cases/");
        let files = self.0.iter().filter(own).chain(self.0.iter().filter(case));
        let item = files
            .flat_map(|file| &file.items)
            .find(|item| item.name.strip_suffix('(') == Some(name))
            .ok_or_else(|| format!("unknown test {binary} {path}"))?;
        Ok(if item.needs_docker { Need::Docker } else { Need::Servers })
    }
}

/// Reads a file, or all files of a folder.
fn add(files: &mut Vec<File>, tests: &Path, path: &str) -> Result<(), String> {
    let failed = |error| format!("tests/{path}: {error}");
    let place = tests.join(path);
    if !place.is_dir() {
        let text = fs::read_to_string(place).map_err(failed)?;
        files.push(File::parse(path.to_owned(), &text));
        return Ok(());
    }
    for entry in fs::read_dir(place).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        add(files, tests, &format!("{path}/{}", name.to_string_lossy()))?;
    }
    Ok(())
}
