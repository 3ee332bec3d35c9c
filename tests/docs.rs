//! Functions, calls and files that the documents name exist.

#![allow(clippy::expect_used, clippy::panic)] // also outside of the test functions

#[path = "docs/guide.rs"]
mod guide;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The texts with links in addition to the pages in `docs/`.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "cli/README.md",
    "src/lib.rs",
    "tests/upstream/README.md",
];

/// The URL of the documents for readers of the crate alone.
const REPOSITORY: &str = "https://github.com/distlock/distlock/blob/main/";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the texts in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn architecture_page_names_existing_functions() {
    let text = read("docs/design/architecture.md");
    let mut steps = 0;
    for step in text.split("\n## ").filter(|part| part.starts_with("The life of a lock")) {
        for (number, step) in step.split(". **").skip(1).enumerate() {
            assert!(step.contains(".rs::"), "step {} names no function", number + 1);
            steps += 1;
        }
    }
    assert_eq!(steps, 10, "the life of a lock");
    for (file, function) in quoted(&text).filter_map(|name| name.split_once(".rs::")) {
        let source = read(&format!("src/{file}.rs"));
        let starts = ["(", "<"].map(|after| format!("fn {function}{after}"));
        let found = starts.iter().any(|start| source.contains(start));
        assert!(found, "docs/design/architecture.md: missing function {function} in src/{file}.rs");
    }
}

#[test]
fn every_call_of_a_store_is_described() {
    let (contract, text) =
        (read("src/backend/contract/store.rs"), read("docs/design/adding-a-store.md"));
    let calls: Vec<_> = contract
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter_map(|line| line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn "))
        .map(|line| line.split(['(', '<']).next().unwrap_or_default())
        .filter(|name| *name != "fmt")
        .collect();
    assert!(calls.contains(&"open") && calls.contains(&"enqueue"), "{calls:?}");
    for call in calls {
        assert!(
            quoted(&text).any(|name| name == call),
            "docs/design/adding-a-store.md does not describe {call}"
        );
    }
}

/// Adds the files below a folder: their paths from the root, and their texts.
fn add_files(folder: &str, files: &mut Vec<(String, String)>) {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for entry in fs::read_dir(root.join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().expect("a type").is_dir() {
            add_files(&name, files);
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            files.push((name, text));
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|part| part.is_alphanumeric() || part == '_')
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let (before, after) =
            (text[..at].chars().next_back(), text[at + word.len()..].chars().next());
        ![before, after].into_iter().flatten().any(|part| part.is_alphanumeric() || part == '_')
    })
}

/// The steps to add a store name existing things: each path is a file or a folder of the
/// repository, from the root or from the section's folder, and each name is in the sources.
#[test]
fn paths_and_names_of_the_steps_to_add_a_store_exist() {
    let mut files = Vec::new();
    ["src", "tests/it", "tests/testkit", "tests/torture", "docker"]
        .iter()
        .for_each(|folder| add_files(folder, &mut files));
    for file in ["Cargo.toml", "tests/architecture.rs"] {
        files.push((file.to_owned(), read(file)));
    }
    let text = read("docs/design/adding-a-store.md");
    let (mut paths, mut names) = (0, 0);
    for quoted in quoted(&text) {
        let path = quoted.replace("<store>", "etcd").replace("*", "lib");
        if path.ends_with(".rs") || path.ends_with(".lua") || path.contains('/') {
            let inside = format!("{}/", path.trim_end_matches('/'));
            let found = files.iter().any(|(file, _)| {
                *file == path || file.ends_with(&format!("/{path}")) || file.contains(&inside)
            });
            assert!(found, "docs/design/adding-a-store.md: missing {quoted}");
            paths += 1;
        }
        for name in quoted.split("::").filter(|name| is_name(name)) {
            let found = files.iter().any(|(_, text)| has_word(text, name));
            assert!(found, "docs/design/adding-a-store.md: unknown name {name}");
            names += 1;
        }
    }
    assert!(paths > 20 && names > 50, "{paths} paths, {names} names");
}

/// Returns the targets of a text's links.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    inline.chain(text.lines().filter_map(|line| {
        let line = line.trim_start_matches("//! ");
        Some(line.strip_prefix('[')?.split_once("]: ")?.1)
    }))
}

/// The anchor of a heading, on code hosts, in the site and in rustdoc.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|part| part.is_alphanumeric() || " -_".contains(*part));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_lead_to_files() {
    let mut documents: Vec<_> =
        DOCUMENTS.iter().map(|name| (String::from(*name), read(name))).collect();
    add_files("docs", &mut documents);
    documents.retain(|(name, _)| name.ends_with(".md") || name.ends_with(".rs"));
    assert!(documents.len() > 35, "{} pages", documents.len());
    for (document, text) in &documents {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let path = root.join(document);
        let folder = path.parent().expect("a folder");
        for link in links(text) {
            let (folder, link) = match link.strip_prefix(REPOSITORY) {
                Some(link) => (root, link),
                // Other sites, and items in the crate's docs, which rustdoc resolves.
                None if link.starts_with("https://") || document.ends_with(".rs") => continue,
                None => (folder, link),
            };
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = folder.join(file);
            assert!(file.is_empty() || path.exists(), "{document}: missing file {file}");
            let target = if file.is_empty() {
                text.clone()
            } else if heading.is_empty() {
                continue;
            } else {
                fs::read_to_string(path).expect("a text")
            };
            let mut headings = target.lines().filter(|line| line.starts_with('#'));
            let found = headings.any(|line| anchor(line.trim_matches(['#', ' '])) == heading);
            assert!(found, "{document}: missing heading {link}");
        }
    }
}

/// Returns the texts between each of these markers and the end character.
fn named(text: &str, before: &str, end: char) -> Vec<String> {
    let rests = text.split(before).skip(1);
    rests.filter_map(|rest| rest.split(end).next()).map(str::to_owned).collect()
}

/// Returns all sources below these folders.
fn sources(folders: &[&str]) -> String {
    let mut all = String::new();
    let mut folders: Vec<_> = folders.iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs" || ext == "sql") {
                all += &fs::read_to_string(path).expect("a source");
            }
        }
    }
    all
}

/// Returns the options of a client, and the settings of servers that it reads.
fn options() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let begins = |name: &String| matches!(name.as_str(), "connect" | "connect_lazy");
    all.extend(named(&read("tests/api.txt"), " Builder::", '('));
    all.retain(|name| !begins(name));
    let url = read("src/client/options.rs");
    for before in ["given.remove(\"", "= time(\"", ": time(\""] {
        all.extend(named(&url, before, '"'));
    }
    all.extend(named(&sources(&["src/backend/postgres"]), "current_setting('", '\''));
    // Options of distlock are no settings of the server.
    all.retain(|name| !name.contains('.'));
    for list in named(&sources(&["src/backend/mysql"]), " WHERE Variable_name", '"') {
        all.extend(list.split('\'').skip(1).step_by(2).map(str::to_owned));
    }
    for list in named(&read("src/backend/mysql/by_pool.rs"), "&str); 7] = [", ']') {
        all.extend(named(&list, "(\"", '"'));
    }
    all.extend(named(&sources(&["src/backend/redis"]), "field(\"", '"'));
    for list in named(&read("src/backend/redis/server.rs"), "const SETTINGS: [&str; 2] = [", ']') {
        all.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    all
}

/// Each option has a test that varies it, by name, or a reason why none does.
#[test]
fn every_option_is_varied() {
    let table = read("docs/design/simulation.md");
    let tests = sources(&["src", "tests"]);
    let options = options();
    let (_, listed) = table.split_once("\n## Options and settings").expect("a table");
    for option in named(listed, "\n| `", '`') {
        assert!(options.contains(&option), "docs/design/simulation.md: {option} no longer exists");
    }
    for option in options {
        let row = table.lines().find_map(|line| line.strip_prefix(&format!("| `{option}` | ")));
        let row =
            row.unwrap_or_else(|| panic!("docs/design/simulation.md: no test varies {option}"));
        for test in quoted(row) {
            // A case of several harnesses is generic.
            let starts = [format!("fn {test}("), format!("fn {test}<")];
            let there = starts.iter().any(|start| tests.contains(start));
            assert!(there, "docs/design/simulation.md: {test} varies {option}, but does not exist");
        }
        let is_explained = quoted(row).next().is_some() || row.starts_with("nothing: ");
        assert!(is_explained, "docs/design/simulation.md: no test is named for {option}");
    }
}
