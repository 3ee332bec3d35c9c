//! The words of the public text: of pages, docs of public items, and what programs print.

use std::{fs, path::Path};

/// A word and its line. Punctuation, code and quotations are an empty word.
pub(crate) type Word = (usize, String);

/// Files and folders with public text.
const PLACES: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs",
    "src",
    "cli/README.md",
    "cli/src",
    "examples",
];

/// Returns the files with public text by their names, and their words.
pub(crate) fn public_text(root: &Path) -> Vec<(String, Vec<Word>)> {
    let mut files = Vec::new();
    PLACES.iter().for_each(|place| add(&mut files, root, place));
    let mut all = Vec::new();
    for (name, text) in files {
        let words = match name.rsplit('.').next() {
            Some("md") => markdown(text.lines().enumerate()),
            Some("json") => titles(&text),
            _ if name.ends_with("tests.rs") || name.contains("/tests/") => continue,
            _ if name.ends_with("/fake_store.rs") => continue,
            _ => source(&name, &text),
        };
        all.push((name, words));
    }
    all
}

/// Adds the texts of a file or folder.
fn add(files: &mut Vec<(String, String)>, root: &Path, name: &str) {
    let path = root.join(name);
    if path.is_dir() {
        let mut names: Vec<_> = fs::read_dir(&path)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names.iter().for_each(|below| add(files, root, &format!("{name}/{below}")));
    } else if [".md", ".rs", "dashboard.json"].iter().any(|end| name.ends_with(end)) {
        files.push((name.to_owned(), fs::read_to_string(&path).expect("a text")));
    }
}

/// Returns the words of Markdown without its code, quotations and link targets.
pub(crate) fn markdown<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Word> {
    let (mut words, mut block, mut fenced) = (Vec::new(), Vec::new(), false);
    for (index, line) in lines {
        let text = line.trim();
        let fence = text.starts_with("```");
        fenced ^= fence;
        let definition = text.starts_with('[') && text.contains("]: ");
        if fence || fenced || definition || text.is_empty() {
            words.append(&mut paragraph(&block));
            block.clear();
        } else {
            block.push((index + 1, text));
        }
    }
    words.append(&mut paragraph(&block));
    words
}

/// Returns the words of lines that are one text.
fn paragraph(lines: &[(usize, &str)]) -> Vec<Word> {
    let all: Vec<(usize, char)> = lines
        .iter()
        .flat_map(|(line, text)| text.chars().chain(['\n']).map(move |part| (*line, part)))
        .collect();
    // Behind the next one of these.
    let behind = |end: char, at: usize| {
        all[at..].iter().position(|(_, part)| *part == end).map(|length| at + length + 1)
    };
    let is_part = |part: char| part.is_alphanumeric() || "_-'’".contains(part);
    let (mut words, mut at): (Vec<Word>, usize) = (Vec::new(), 0);
    while let Some(&(line, part)) = all.get(at) {
        let end = match part {
            '`' => behind_code(&all, at),
            '"' => behind(part, at + 1),
            '{' => behind('}', at),
            ']' if all.get(at + 1).is_some_and(|(_, next)| *next == '(') => behind(')', at),
            _ => None,
        };
        if is_part(part) {
            let rest = all[at..].iter().map(|(_, part)| *part);
            let word: String = rest.take_while(|part| is_part(*part)).collect();
            at += word.chars().count();
            words.push((line, word.to_lowercase()));
            continue;
        }
        let ends_clause = !part.is_whitespace() && !"*[]".contains(part);
        let begins_item = end.is_none() && at > 0 && is_item(&all[at..]);
        if ends_clause || begins_item {
            words.push((line, String::new()));
        }
        at = end.unwrap_or(at + 1);
    }
    words.push((0, String::new()));
    words
}

/// Returns what follows the code that begins here. As many backticks end it as begin it.
fn behind_code(all: &[(usize, char)], at: usize) -> Option<usize> {
    let ticks = |from: usize| all[from..].iter().take_while(|(_, part)| *part == '`').count();
    let many = ticks(at);
    let mut end = at + many;
    while end < all.len() {
        match ticks(end) {
            0 => end += 1,
            found if found == many => return Some(end + found),
            found => end += found,
        }
    }
    None
}

/// Whether the rest of a paragraph begins with a further item of a list.
fn is_item(rest: &[(usize, char)]) -> bool {
    matches!(rest, [(_, '\n'), (_, '-' | '*'), (_, ' '), ..])
}

/// Returns the words of a dashboard's titles and descriptions.
fn titles(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let value = ["\"title\": ", "\"description\": "]
            .iter()
            .find_map(|key| line.trim().strip_prefix(key));
        let value = value.unwrap_or_default().trim_matches(['"', ',']);
        words.append(&mut paragraph(&[(index + 1, value)]));
    }
    words
}

/// Returns the words of a source's strings, and of its docs that are public.
pub(crate) fn source(name: &str, text: &str) -> Vec<Word> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut words = Vec::new();
    for (line, string) in strings(text) {
        let lines = string.split('\n').enumerate().map(|(index, part)| (line + index, part));
        words.append(&mut paragraph(&lines.collect::<Vec<_>>()));
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut block = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let line = line.trim();
        // The heads of private modules are for contributors.
        let head = line.strip_prefix("//!").filter(|_| has_public_head(name));
        if let Some(doc) = head.or_else(|| line.strip_prefix("///")) {
            block.push((index, doc));
            continue;
        }
        let head = index > 0 && lines[index - 1].trim().starts_with("//!");
        if head || name == "cli/src/args.rs" || is_public(&lines, item(&lines, index)) {
            words.append(&mut markdown(block.iter().copied()));
        }
        block.clear();
    }
    words
}

/// Whether a file begins with docs for users.
fn has_public_head(name: &str) -> bool {
    name.starts_with("examples/") || name.starts_with("src/") && name.matches('/').count() == 1
}

/// Returns the line of the item that is behind these attributes.
fn item(lines: &[&str], mut at: usize) -> usize {
    while let Some(line) = lines.get(at).map(|line| line.trim()) {
        if line.starts_with("#[") && !line.contains(']') {
            at += lines[at..].iter().position(|line| line.trim().ends_with(")]")).unwrap_or(0);
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            break;
        }
        at += 1;
    }
    at
}

/// Whether the item at a line is `pub`, or belongs to a public enum or trait.
fn is_public(lines: &[&str], at: usize) -> bool {
    let Some(line) = lines.get(at) else { return false };
    let item = line.trim_start();
    let begins = |starts: &[&str]| starts.iter().any(|start| item.starts_with(start));
    if item.starts_with("pub ") {
        return true;
    }
    let depth = line.len() - item.len();
    if depth == 0
        || begins(&["pub(", "impl", "mod ", "struct ", "enum ", "trait ", "use ", "static "])
    {
        return false;
    }
    let opens = |above: &&usize| {
        let line = lines[**above];
        line.ends_with('{') && line.len() - line.trim_start().len() < depth
    };
    let above: Vec<usize> = (0..at).rev().collect();
    let Some(&above) = above.iter().find(opens) else { return false };
    let owner = lines[above].trim_start();
    if begins(&["fn ", "async fn ", "type ", "const "]) {
        owner.starts_with("pub trait ")
    } else if owner.starts_with(char::is_uppercase) {
        is_public(lines, above) // the field of a variant
    } else {
        owner.starts_with("pub enum ")
    }
}

/// Returns the strings of a source, and where they begin.
pub(crate) fn strings(text: &str) -> Vec<(usize, String)> {
    let (mut all, mut rest, mut line) = (Vec::new(), text, 1);
    while let Some(part) = rest.chars().next() {
        let raw = rest.starts_with("r\"") || rest.starts_with("r#\"");
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if raw {
            let end = if rest.starts_with("r#") { "\"#" } else { "\"" };
            let begin = end.len() + 1;
            let length = rest[begin..].find(end).unwrap_or(0);
            all.push((line, rest[begin..begin + length].to_owned()));
            begin + length + end.len()
        } else if part == '"' {
            let length = end_of_string(&rest[1..]);
            all.push((line, unescaped(&rest[1..=length])));
            length + 2
        } else if part == '\'' {
            // A letter, or only the mark of a lifetime.
            let escaped = rest.starts_with("'\\");
            let letter = rest.chars().nth(2) == Some('\'') && !escaped;
            let close = || rest[2..].find('\'').map_or(1, |end| end + 3);
            if letter {
                rest.chars().take(3).map(char::len_utf8).sum()
            } else if escaped {
                close()
            } else {
                1
            }
        } else {
            part.len_utf8()
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    all
}

/// Returns where a string ends whose first quote has been read.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    text.find(|part| {
        let end = part == '"' && !escaped;
        escaped = part == '\\' && !escaped;
        end
    })
    .unwrap_or(text.len())
}

/// Returns a string's text, with a line break where the source has one.
fn unescaped(text: &str) -> String {
    text.replace("\\\n", "\n").replace("\\n", ";").replace("\\\"", "\"")
}
