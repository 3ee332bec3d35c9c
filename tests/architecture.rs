//! Checks the layers of `docs/design/architecture.md`. No file of `src/` imports one of a higher
//! layer, and no imports form a cycle. The second rule also applies to the benchmark, the command,
//! the torture test and the test kit.
//!
//! A file may import its enclosing modules and its submodules. Unit tests do not count.

#![allow(clippy::expect_used, clippy::panic)] // also outside of the test functions

#[path = "architecture/paths.rs"]
mod paths;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use paths::{Import, Sources};

/// The modules directly in `src/`, and their layers.
const LAYERS: &[(&str, u8)] = &[
    ("blocking", 7),
    ("client", 6),
    ("diesel_2", 5),
    ("etcd", 5),
    ("mysql", 5),
    ("postgres", 5),
    ("redis", 5),
    ("sqlite", 5),
    ("sqlx_0_9", 5),
    ("zookeeper", 5),
    ("primitives", 5),
    ("queue", 4),
    ("session", 3),
    ("backend", 2),
    ("runtime", 1),
    ("telemetry", 1),
    ("error", 0),
    ("fencing", 0),
    ("guide", 0),
    ("lost", 0),
    ("optimistic", 0),
    ("store_kind", 0),
];

/// The layer of `lib.rs`, which imports everything.
const TOP: u8 = 8;

/// Modules for users only: no other module of `src/` imports them.
const USER_MODULES: &[&str] = &[
    "blocking",
    "diesel_2",
    "etcd",
    "mysql",
    "postgres",
    "redis",
    "sqlite",
    "sqlx_0_9",
    "zookeeper",
];

/// Pairs of files that still import each other. Pairs that no longer do must be removed from here.
const KNOWN: &[[&str; 2]] = &[];

/// Returns the layer of a module, or `None` if it has none.
fn layer(module: &[String]) -> Option<u8> {
    let Some(top) = module.first() else { return Some(TOP) };
    LAYERS.iter().find(|(name, _)| name == top).map(|(_, layer)| *layer)
}

/// Returns the imports of higher layers or of modules for users.
fn upward(imports: &[Import]) -> Vec<&Import> {
    let wrong = |Import { from, to, .. }: &&Import| {
        let for_users = to.first().is_some_and(|top| USER_MODULES.contains(&top.as_str()));
        let outside = !from.is_empty() && from.first() != to.first();
        layer(to) > layer(from) || for_users && outside
    };
    imports.iter().filter(wrong).collect()
}

/// Returns the imports whose target imports their file in turn, directly or through others.
fn circular(imports: &[Import]) -> Vec<&Import> {
    let mut named = BTreeMap::<_, BTreeSet<_>>::new();
    for Import { file, target, .. } in imports {
        named.entry(file).or_default().insert(target);
    }
    let reached = |file| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![file]);
        while let Some(at) = next.pop() {
            next.extend(named.get(at).into_iter().flatten().filter(|to| reached.insert(**to)));
        }
        reached
    };
    let reached: BTreeMap<_, _> = named.keys().map(|file| (*file, reached(*file))).collect();
    let returns = |Import { file, target, .. }: &&Import| {
        reached.get(target).is_some_and(|files| files.contains(file))
    };
    imports.iter().filter(returns).collect()
}

/// Reads the sources in a folder of the repository.
fn read(folder: &str) -> Sources {
    fn add(sources: &mut Sources, folder: &Path, prefix: &str) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            let name = format!("{prefix}{name}");
            if path.is_dir() {
                add(sources, &path, &format!("{name}/"));
            } else if name.ends_with(".rs") {
                sources.add(&name, &fs::read_to_string(&path).expect("a text"));
            }
        }
    }
    let mut sources = Sources::default();
    add(&mut sources, &Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(folder), "");
    sources
}

fn lines(imports: &[&Import]) -> String {
    imports.iter().map(|import| format!("\n{import}")).collect()
}

#[test]
fn every_file_has_a_layer() {
    let sources = read("src");
    let missing: Vec<_> = sources.files().filter(|(_, at)| layer(at).is_none()).collect();
    assert!(missing.is_empty(), "missing in LAYERS: {missing:?}");
}

#[test]
fn no_import_names_a_higher_layer() {
    let imports = read("src").imports();
    let upward = upward(&imports);
    assert!(upward.is_empty(), "imports of higher layers:{}", lines(&upward));
}

#[test]
fn no_two_files_import_each_other() {
    let mut library = read("src").imports();
    for [one, other] in KNOWN {
        for (file, target) in [(one, other), (other, one)] {
            let before = library.len();
            library.retain(|import| import.file != **file || import.target != **target);
            assert!(
                library.len() < before,
                "{one} and {other} no longer import each other: remove them from KNOWN"
            );
        }
    }
    let tools = [
        ("benches/src", 100),
        ("cli/src", 50),
        ("tests/torture/src", 100),
        ("tests/testkit/src", 5),
    ];
    let tools = tools.map(|(folder, least)| (read(folder).imports(), least));
    for (imports, least) in [(library, 100)].iter().chain(&tools) {
        assert!(imports.len() > *least, "too few imports were found");
        let circular = circular(imports);
        assert!(circular.is_empty(), "cyclic imports:{}", lines(&circular));
    }
}

/// Returns the imports of an example.
fn imports(files: &[(&str, &str)]) -> Vec<Import> {
    let mut sources = Sources::default();
    for (name, text) in files {
        sources.add(name, text);
    }
    sources.imports()
}

/// Returns the upward imports of a file in the layer of the queue.
fn found(text: &str) -> Vec<String> {
    let imports = imports(&[
        ("lib.rs", "mod backend; mod client; mod queue; pub use client::{Client, url as address};"),
        ("backend/mod.rs", "pub(crate) struct Entry;"),
        ("client/mod.rs", "pub(crate) mod url; pub struct Client;"),
        ("client/url.rs", "pub struct Url;"),
        ("queue/mod.rs", "mod wait; use crate::backend::Entry;"),
        ("queue/wait.rs", text),
    ]);
    upward(&imports)
        .iter()
        .map(|Import { line, path, target, .. }| format!("{line} {path} {target}"))
        .collect()
}

#[test]
fn upward_imports_are_found() {
    for text in [
        "use crate::client::url::Url;",
        "fn f() { g(crate::client::url::Url::new()) }",
        "struct S<T = crate::client::url::Url>(T);",
        "use crate::backend::Entry;\nuse crate::{backend, client::{self, url::{Url as U}}};",
        "use super::super::client::url;\nfn f(url: url::Url) {}",
        "fn f() { tokio::select! { x = y => matches!(x, crate::client::url::Url) } }",
        "fn f() { assert!(a, \"{}\", super::super::client::url::Url) }",
        "mod inner { use super::super::super::client::url::Url; }",
        "#[cfg(not(test))] use crate::client::url::*;",
        // Names that lib.rs re-exports belong to the files that define them.
        "fn f(url: &crate::address::Url) {}",
    ] {
        let found = found(text);
        let line = text.lines().count();
        let hit = |found: &String| {
            found.starts_with(&format!("{line} ")) && found.ends_with(" client/url.rs")
        };
        assert!(found.iter().any(hit), "{text}: {found:?}");
    }
    assert_eq!(found("use crate::Client;"), ["1 crate::Client client/mod.rs"]);
}

#[test]
fn downward_imports_are_allowed() {
    for text in [
        "use crate::backend::Entry; use super::Entry as Same; use super::*;",
        "pub(crate) fn client() -> client::Client { let url: url::Url; self.client }",
        "use client::Url; use std::sync::Arc; use async_trait::async_trait;",
        "#[cfg(test)] mod tests { use crate::client::Client; }",
        "fn f() { #[cfg(test)] let url = crate::client::url::Url; }",
        "/// See [`crate::client::Client`].\nfn f() { \"crate::client::Client\"; }",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}

#[test]
fn unit_test_files_are_ignored() {
    let text = "use crate::client::Client;";
    let files = [("client.rs", "struct Client;"), ("queue.rs", "#[cfg(test)] mod tests;")];
    let mut sources = Sources::default();
    for (name, text) in files.into_iter().chain([("queue/tests.rs", text)]) {
        sources.add(name, text);
    }
    assert_eq!(sources.imports(), []);
    assert_eq!(
        sources.files().map(|(name, _)| name).collect::<Vec<_>>(),
        ["client.rs", "queue.rs"]
    );
}

#[test]
fn cyclic_imports_are_found() {
    let circles = |files: &[(&str, &str)]| {
        circular(&imports(files)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        circles(&[
            ("main.rs", "mod a; mod b; mod c; pub(crate) use b::B;"),
            ("a.rs", "struct A;\nuse crate::B;"),
            ("b.rs", "struct B(super::a::A);"),
            ("c.rs", "use crate::{a, b};"),
        ]),
        ["a.rs:2: crate::B is in b.rs", "b.rs:1: super::a::A is in a.rs"]
    );
    let three = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b;"),
        ("b.rs", "use crate::c;"),
        ("c.rs", "use crate::a;"),
    ];
    assert_eq!(circles(&three).len(), 3);
    // A module and its submodule.
    let family = [("a.rs", "mod b; use b::B; struct A;"), ("a/b.rs", "struct B(super::A);")];
    assert_eq!(circles(&family), [""; 0]);
}
