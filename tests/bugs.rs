//! Checks that every bug of `tests/bugs/` can be planted in the current sources, and that it names
//! existing tests. `docker/bugs` proves that these tests catch it.

#![allow(clippy::expect_used, clippy::panic)] // also outside of the test functions

#[path = "bugs/apply.rs"]
mod apply;

use std::{collections::HashMap, fs, path::Path};

use apply::{
    Bug, Test,
    needs::{Need, Sources},
};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn bugs() -> Vec<Bug> {
    Bug::all(&root().join("tests/bugs")).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the text of a file, or an empty text if it does not exist.
fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_default()
}

/// Returns `true` if one of these files defines the function, as a test or as a case.
fn defines(files: &[String], name: &str) -> bool {
    let starts = [format!("fn {name}("), format!("fn {name}<")];
    files.iter().any(|file| starts.iter().any(|start| text(file).contains(start)))
}

/// Returns `true` if the test exists.
fn exists(Test { binary, path }: &Test) -> bool {
    let parts: Vec<_> = path.split("::").collect();
    let (name, modules) = parts.split_last().expect("a path has a part");
    if binary.starts_with("lib") {
        let path = modules.join("/");
        let inline = path.strip_suffix("/tests").unwrap_or(&path);
        let files = [path.as_str(), inline, &format!("{inline}/mod")];
        return defines(&files.map(|path| format!("src/{path}.rs")), name);
    }
    if binary == "cli" {
        return defines(&[format!("cli/src/{}.rs", modules[0])], name);
    }
    match modules {
        [] => defines(&[format!("tests/{binary}.rs"), format!("tests/it/{binary}.rs")], name),
        ["conformance" | "network"] => {
            let list = text("tests/it/common/lists.rs");
            let (plain, network) = list.split_once("macro_rules! network_cases").expect("a list");
            let list = if modules == ["network"] { network } else { plain };
            lists(list, name)
        }
        // The model also runs cases of etcd's own files.
        [module] if binary == "etcd_model" => {
            let (own, cases) =
                ("tests/it/etcd_model.rs".to_owned(), format!("tests/it/etcd/{module}.rs"));
            let listed = text(&cases).lines().any(|line| line.trim() == format!("{name},"));
            text(&own).contains(&format!("mod {module} {{"))
                && (defines(&[own], name) || listed && defines(&[cases], name))
        }
        [_, "promotion"] => defines(&["tests/it/failover/promotion.rs".to_owned()], name),
        modules => {
            let path = format!("{binary}/{}.rs", modules.join("/"));
            let files = [format!("tests/{path}"), format!("tests/it/{path}")];
            let listed = |file: &String| lists(&text(file), name) || emits(&text(file), name);
            // A module may be defined in its store's file.
            let store = ["", "/mod"].map(|file| format!("tests/it/{binary}{file}.rs"));
            files.iter().chain(&store).any(listed)
                || defines(&files, name)
                || is_modelled(binary, modules, name)
        }
    }
}

/// Returns `true` if the tests of a store in this process list this case of that store, or run its
/// module.
fn is_modelled(binary: &str, modules: &[&str], name: &str) -> bool {
    let store = ["_model", "_embedded"].iter().find_map(|end| binary.strip_suffix(end));
    let (Some(store), [module, ..]) = (store, modules) else { return false };
    let list = text(&format!("tests/it/{binary}.rs"));
    let begin = format!("\n    {module}, ");
    let cases = list.split_once(&begin).and_then(|(_, rest)| rest.split_once("\n    }"));
    let is_listed = cases.is_some_and(|(cases, _)| cases.contains(&format!("\n        {name},")));
    let runs = |file: &str| list.contains(&format!("    {module} \"{store}/{module}{file}\""));
    let is_shared = runs(".rs") || runs("/mod.rs");
    let file = format!("tests/it/{store}/{}.rs", modules.join("/"));
    let has = || lists(&text(&file), name) || emits(&text(&file), name);
    (is_listed || is_shared) && (has() || defines(std::slice::from_ref(&file), name))
}

/// Returns `true` if a list has this case, and the case exists.
fn lists(list: &str, name: &str) -> bool {
    let case = list.lines().find_map(|line| {
        let (module, case) = line.trim().strip_suffix(',')?.split_once("::")?;
        (case == name).then(|| module.to_owned())
    });
    case.is_some_and(|module| defines(&[format!("tests/it/common/cases/{module}.rs")], name))
}

/// Returns `true` if a file emits a shared list with this case.
fn emits(file: &str, name: &str) -> bool {
    let all = text("tests/it/common/lists.rs");
    let mut shared = all.split("macro_rules! ").skip(1);
    shared.any(|list| {
        let (macro_name, cases) = list.split_once(' ').expect("a macro");
        file.contains(&format!("{macro_name}! {{")) && lists(cases, name)
    })
}

#[test]
fn every_bug_can_be_planted() {
    let (mut planted, mut wrong) = (HashMap::new(), Vec::new());
    for bug in bugs() {
        match bug.plant(root()) {
            Err(error) => wrong.push(error),
            Ok(files) => {
                if let Some(twin) = planted.insert(files, bug.name.clone()) {
                    wrong.push(format!("{} has the same changes as {twin}", bug.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(!planted.is_empty(), "no bugs");
}

#[test]
fn every_bug_changes_the_library_or_the_command() {
    for bug in bugs() {
        let plain = bug.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        assert!(plain, "the name {:?}", bug.name);
        for (file, with) in bug.plant(root()).unwrap_or_else(|error| panic!("{error}")) {
            let source = file.starts_with("src/") || file.starts_with("cli/src/");
            assert!(source, "{}: {file}", bug.name);
            assert_ne!(with, text(&file), "{}: {file} is unchanged", bug.name);
        }
    }
}

#[test]
fn every_bug_has_its_tests() {
    for bug in bugs() {
        for test in &bug.tests {
            assert!(exists(test), "{}.bug: there is no test {test:?}", bug.name);
        }
    }
    let exists = |binary: &str, path: &str| {
        exists(&Test { binary: binary.to_owned(), path: path.to_owned() })
    };
    for (binary, path) in [
        ("lib", "runtime::clock::tests::no_such_test"),
        ("lib", "runtime::no_such_file::tests::waker_may_read_the_deadline"),
        ("memory", "no_such_test"),
        ("memory", "conformance::no_such_test"),
        // That case belongs to `network`.
        ("etcd", "conformance::release_before_the_watch_is_noticed_at_once"),
        ("etcd", "foreign::no_such_test"),
        // ZooKeeper's model has no ensemble, and runs only the cases of its own lists.
        (
            "zookeeper_model",
            "members::a_holder_on_a_follower_that_is_cut_off_knows_before_its_successor",
        ),
        ("zookeeper_model", "marks::names_stay_unique_after_sequence_numbers_overflow"),
        ("etcd_model", "foreign::no_such_test"),
        // Two open transactions need a server.
        ("postgres_embedded", "overlaps::queue_that_is_joined_during_a_tidy_keeps_its_row"),
        ("postgres_embedded", "pool::settings::no_such_test"),
        // It needs a program of etcd.
        ("etcd_model", "etcdctl::etcdctl_waits_for_distlock"),
    ] {
        assert!(!exists(binary, path), "{path}");
    }
}

#[test]
fn needs_of_tests_are_derived_from_the_sources() {
    let sources = Sources::read(root()).unwrap_or_else(|error| panic!("{error}"));
    let need = |binary: &str, path: &str| {
        sources.need(&Test { binary: binary.to_owned(), path: path.to_owned() })
    };
    for (expected, binary, path) in [
        (Need::Nothing, "lib:etcd", "backend::etcd::transactions::tests::a_test"),
        (Need::Nothing, "memory", "conformance::two_namespaces_are_independent"),
        (Need::Nothing, "forked", "memory"),
        (Need::Servers, "forked", "redis"),
        (Need::Servers, "etcd", "conformance::two_namespaces_are_independent"),
        (Need::Nothing, "etcd_model", "conformance::two_namespaces_are_independent"),
        // In a module of its file.
        (Need::Servers, "redis", "bridge::a_bridged_lock_excludes_foreign_clients"),
        (Need::Servers, "mysql", "settings::pooler_that_resets_connections_is_refused_by_name"),
        // Through a function of the same file, of another file, and of a case.
        (Need::Docker, "mysql", "settings::keepalives_are_committed_whatever_the_completion_type"),
        (Need::Docker, "redis", "servers::a_key_is_evicted"),
        (Need::Docker, "postgres", "clock::a_clock_that_is_set_back_frees_nothing"),
    ] {
        assert_eq!(need(binary, path), Ok(expected), "{binary} {path}");
    }
    assert!(need("etcd", "release_markers::no_such_test").is_err());
}

const GOOD: &str =
    "Why.\n\ntest: memory a_test\n\nfile: Cargo.toml\nfind:\n[features]\nput:\n[no]\n";

#[test]
fn find_must_match_exactly_once() {
    let plant = |text: &str| Bug::parse("a", text).expect("a well-formed bug").plant(root());
    let files = plant(GOOD).expect("found exactly once");
    assert_eq!(files["Cargo.toml"], text("Cargo.toml").replace("[features]", "[no]"));
    let removed = plant(&GOOD.replace("[no]\n", "")).expect("found exactly once");
    assert_eq!(removed["Cargo.toml"], text("Cargo.toml").replace("[features]\n", ""));
    for (find, replacement) in [
        ("[features]", "[feature]"),
        // Occurs several times, and not as a whole line.
        ("[features]", ""),
        ("[features]", "features"),
        ("[features]", "[features]\n[features]"),
        ("Cargo.toml", "no-such-file"),
        // The first change has removed it.
        ("put:\n[no]\n", "put:\n[no]\n\nfile: Cargo.toml\nfind:\n[features]\nput:\n[yes]\n"),
    ] {
        let error = plant(&GOOD.replace(find, replacement)).expect_err(replacement);
        assert!(error.starts_with("a.bug: "), "{error}");
    }
}

#[test]
fn malformed_files_are_refused() {
    for (find, replacement) in [
        ("Why.\n", ""),
        ("Why.\n", "Why.\nWhy.\nWhy.\n"),
        ("test: memory a_test\n", ""),
        ("test: memory a_test\n", "test: a_test\n"),
        ("test: memory", "test: memories"),
        ("file: Cargo.toml\n", ""),
        ("find:\n", ""),
        ("[features]\n", ""),
        ("put:\n", ""),
        ("put:\n", "to put:\n"),
        ("[no]\n", "[no]\nfind:\n"),
    ] {
        let text = GOOD.replace(find, replacement);
        let error = Bug::parse("a", &text).err().unwrap_or_else(|| panic!("well-formed: {text}"));
        assert!(error.starts_with("a.bug: "), "{error}");
    }
}
