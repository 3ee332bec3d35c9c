//! Rules for every text of the project: a maximum line length, and no words that are hard for
//! non-native readers.

#![allow(clippy::expect_used, clippy::panic)] // also outside of the test functions

mod prose;

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

/// What public text does not use, by its kind, with what replaces it. A dot is where a clause ends.
const PHRASES: &[(&str, &[&str])] = &[
    (
        "a function returns, a message reports, a page documents, a watch notifies",
        &["told", "tell", "tells", "telling"],
    ),
    (
        "name the noun",
        &["those who", "one that", "ones that", "such a", "such an", "the other one", "whoever"],
    ),
    (
        "name the party: a client, an operator, a server",
        &["nobody", "somebody", "anybody", "someone", "anyone"],
    ),
    (
        "compared with, next to; again; no longer; while; a reply; is, waits; unchanged",
        &[
            "beside",
            "anew",
            "any more",
            "meanwhile",
            "an answer",
            "the answer",
            "the answers",
            "stands",
            "as it is .",
        ],
    ),
];

/// Where public text may use some of them: the file, the phrase, and the reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("src/backend/contract/name.rs", "nobody", "a label in keys, which other versions read"),
    ("src/backend/security/acl.rs", "anyone", "ZooKeeper's name of all clients"),
];

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
        let link = ["/// [", "//! ["].iter().any(|doc| line.trim_start().starts_with(doc));
        let unbreakable = markdown && unbreakable || link && line.contains("]: https://");
        line.chars().count() > WIDTH && !unbreakable
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

/// The phrases of the list that these words have, with their lines.
fn phrases(words: &[prose::Word]) -> Vec<(usize, &'static str)> {
    let phrases = PHRASES.iter().flat_map(|(_, phrases)| phrases.iter().copied());
    let mut found: Vec<_> = phrases
        .flat_map(|phrase| {
            let parts: Vec<_> = phrase.split(' ').map(|part| part.trim_matches('.')).collect();
            let at = words.windows(parts.len()).filter(move |window| {
                window.iter().map(|(_, word)| word.as_str()).eq(parts.iter().copied())
            });
            at.map(move |window| (window[0].0, phrase))
        })
        .collect();
    found.sort_unstable();
    found
}

fn advice(phrase: &str) -> &'static str {
    PHRASES.iter().find(|(_, all)| all.contains(&phrase)).map_or("", |(advice, _)| advice)
}

#[test]
fn public_text_names_things_plainly() {
    let (mut found, mut used) = (Vec::new(), vec![false; ALLOWED.len()]);
    for (name, words) in prose::public_text(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))) {
        for (line, phrase) in phrases(&words) {
            let allowed = |(file, part, _): &(&str, &str, &str)| *file == name && *part == phrase;
            match ALLOWED.iter().position(allowed) {
                Some(entry) => used[entry] = true,
                None => found.push(format!("{name}:{line}: \"{phrase}\" ({})", advice(phrase))),
            }
        }
    }
    assert!(found.is_empty(), "rewrite the sentences:\n{}", found.join("\n"));
    for ((file, phrase, reason), used) in ALLOWED.iter().zip(used) {
        assert!(!reason.is_empty(), "{file}: why may it use \"{phrase}\"?");
        assert!(used, "{file} does not use \"{phrase}\": take the entry out of ALLOWED");
    }
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
    let link = format!("[`a`]: https://example.org/{}", "b".repeat(WIDTH));
    assert_eq!(too_long("a.rs", &format!("/// {link}\n    //! {link}\n// {link}")), [3]);
}

#[test]
fn finds_words() {
    assert_eq!(words("/// Whoever comes sees\n    /// to it."), ["whoever", "sees to"]);
    assert_eq!(words("fn lest_it() {}\n# else\n# as, (dear)"), ["lest", "dear", "else as"]);
    assert_eq!(words("the largest, dearly; somewhoever sees two; else assume"), [""; 0]);
}

/// The phrases in a page.
fn in_page(text: &str) -> Vec<&'static str> {
    let words = prose::markdown(text.lines().enumerate());
    phrases(&words).into_iter().map(|(_, phrase)| phrase).collect()
}

#[test]
fn finds_each_phrase() {
    for phrase in PHRASES.iter().flat_map(|(_, phrases)| *phrases) {
        let broken = phrase.replacen(' ', "\n", 1);
        for text in
            [format!("A lock, {phrase} x."), format!("- *{broken}*"), format!("| {phrase} |")]
        {
            assert_eq!(in_page(&text), [*phrase], "{text}");
        }
    }
}

#[test]
fn lets_pass_what_only_looks_like_a_phrase() {
    let texts = [
        "stores such as etcd, and a stand-in",
        "call `tell` or ``beside``, or run the program `told\nit`",
        "the crate \"Beside the Point\" ([docs](https://example.org/beside/told))",
        "the old one. That lock is lost; the first one (that is, its key)",
        "- delete the old one\n- that lock is lost",
        "in any morello, besides, retold, standstill; as it isn't, as long as it is held",
        "```text\nnobody is told\n```\n[beside]: https://example.org/meanwhile",
    ];
    for text in texts {
        assert_eq!(in_page(text), [""; 0], "{text}");
    }
}

#[test]
fn reads_strings_and_public_docs() {
    let text = r##"
/// Is told.
pub fn f<'a>(x: &'a str) { let c = '"'; g("stands {here:?} \
    beside", r#"some"body" is told"#) } // anew

/// Is told anew.
pub(crate) fn g() {}

/// As it is.
#[error(
    "nobody"
)]
pub enum E {
    /// Meanwhile.
    A {
        /// Whoever.
        a: u8,
    },
}

struct S {
    /// The answer.
    a: u8,
}
"##;
    let found = phrases(&prose::source("src/a/b.rs", text));
    assert_eq!(
        found,
        [
            (2, "told"),
            (3, "stands"),
            (4, "beside"),
            (4, "told"),
            (9, "as it is ."),
            (11, "nobody"),
            (14, "meanwhile"),
            (16, "whoever"),
        ]
    );
}
