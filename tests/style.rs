//! Rules for every text of the project: a maximum line length, and no words that are hard for
//! non-native readers.

#![allow(clippy::expect_used, clippy::panic)] // also outside of the test functions

use std::{
    fs,
    path::{Path, PathBuf},
};

const WIDTH: usize = 100;

/// Words that readers may not know.
const WORDS: &[&str] =
    &["whoever", "be it that", "lest", "dear", "befall", "befalls", "befell", "sees to", "else as"];

/// Folders that still contain some of these words. Remove a folder from the list when it has none.
const LEFT: &[&str] = &[];

/// The checked files, below the root.
const PLACES: &[&str] = &[
    ".ci",
    "benches",
    "cli",
    "docker",
    "docs",
    "examples",
    "src",
    "tests",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
];

/// Returns the texts with their names.
fn texts() -> Vec<(String, String)> {
    fn add(texts: &mut Vec<(String, String)>, root: &Path, path: PathBuf) {
        if path.is_dir() {
            for entry in fs::read_dir(path).expect("a folder") {
                add(texts, root, entry.expect("an entry").path());
            }
            return;
        }
        let below = path.strip_prefix(root).expect("the path is below the root");
        let name = below.to_str().expect("a name").replace('\\', "/");
        let other = path.extension().is_some_and(|extension| extension == "svg");
        // This file contains the words as its list.
        if !other && name != "tests/style.rs" {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            texts.push((name, text));
        }
    }
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut texts = Vec::new();
    for place in PLACES {
        add(&mut texts, root, root.join(place));
    }
    texts
}

/// Lines of Markdown that cannot be broken: tables, code, and single links.
fn unbreakable(text: &str) -> impl Iterator<Item = bool> {
    let mut fenced = false;
    text.lines().map(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let line = line.trim_start_matches(['-', ' ', '!']);
        let link = line.starts_with('[') && (line.contains("]: ") || line.ends_with(')'));
        fenced || fence || link || line.starts_with('|')
    })
}

/// Returns the lines that are too long.
fn too_long(name: &str, text: &str) -> Vec<usize> {
    let markdown = name.ends_with(".md");
    let long = |(line, unbreakable): (&str, bool)| {
        line.chars().count() > WIDTH && !(markdown && unbreakable)
    };
    let lines = text.lines().zip(unbreakable(text)).map(long);
    lines.enumerate().filter(|(_, long)| *long).map(|(index, _)| index + 1).collect()
}

/// Returns the listed words in a text, including those in identifiers and across line breaks.
fn words(text: &str) -> Vec<&'static str> {
    let plain = text.replace(|mark| "/!#_".contains(mark), " ").to_lowercase();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = |text: &str| text.chars().next().is_some_and(char::is_alphanumeric);
    let found = |word: &&&str| {
        plain.match_indices(**word).any(|(at, _)| {
            let before = plain[..at].chars().next_back();
            !before.is_some_and(|c| parts(&c.to_string())) && !parts(&plain[at + word.len()..])
        })
    };
    WORDS.iter().filter(found).copied().collect()
}

#[test]
fn lines_fit() {
    let mut long = Vec::new();
    for (name, text) in texts() {
        if name.ends_with(".rs") || name.ends_with(".md") {
            long.extend(too_long(&name, &text).iter().map(|line| format!("{name}:{line}")));
        }
    }
    assert!(long.is_empty(), "longer than {WIDTH} columns:\n{}", long.join("\n"));
}

#[test]
fn words_are_plain() {
    let mut found = Vec::new();
    for (name, text) in texts() {
        found.extend(words(&text).into_iter().map(|word| (name.clone(), word)));
    }
    let left = |name: &String| LEFT.iter().any(|folder| name.starts_with(folder));
    let new: Vec<_> = found.iter().filter(|(name, _)| !left(name)).collect();
    assert!(new.is_empty(), "not in plain English: {new:?}");
    for folder in LEFT {
        let any = found.iter().any(|(name, _)| name.starts_with(folder));
        assert!(any, "{folder} no longer has any of the words: remove it from LEFT");
    }
}

#[test]
fn finds_long_lines() {
    let long = "word ".repeat(25);
    let table =
        format!("| {long}|\n- [{long}](https://example.org)\n```\n{long}\n```\n[a]: {long}");
    assert_eq!(too_long("a.md", &format!("{table}\n\n- {long}")), [8]);
    assert_eq!(too_long("a.rs", &format!("\n// {long}\n{}", "ü".repeat(WIDTH))), [2]);
    assert_eq!(too_long("a.rs", &format!("| {long}")), [1]);
}

#[test]
fn finds_words() {
    assert_eq!(words("/// Whoever comes sees\n    /// to it."), ["whoever", "sees to"]);
    assert_eq!(words("fn lest_it() {}\n# else\n# as, (dear)"), ["lest", "dear", "else as"]);
    assert_eq!(words("the largest, dearly; somewhoever sees two; else assume"), [""; 0]);
}
