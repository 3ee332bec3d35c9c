//! Reads from the tokens of a crate which file names which other one, so that paths inside macros
//! count, too.

use std::{collections::BTreeMap, fmt};

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// The path of a module below the crate's root, whose path is empty.
type Module = Vec<String>;

/// One file names another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) file: String,
    pub(crate) line: usize,
    /// As written.
    pub(crate) path: String,
    /// The modules of both files.
    pub(crate) from: Module,
    pub(crate) to: Module,
    /// The file that defines the name.
    pub(crate) target: String,
}

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} is in {}", self.file, self.line, self.path, self.target)
    }
}

/// A path as written in a file.
struct Written {
    file: String,
    line: usize,
    module: Module,
    segments: Vec<String>,
}

/// All files of a crate.
#[derive(Default)]
pub(crate) struct Sources {
    /// The files and their modules.
    files: BTreeMap<String, Module>,
    /// The file that each module is in.
    modules: BTreeMap<Module, String>,
    /// Modules of unit tests.
    tests: Vec<Module>,
    /// The path of each name that a `use` imports into a module. Private names are visible only
    /// below it.
    aliases: BTreeMap<(Module, String), Vec<String>>,
    paths: Vec<Written>,
}

impl Sources {
    /// Adds a file by its name below the folder of the sources.
    pub(crate) fn add(&mut self, name: &str, text: &str) {
        let mut module: Module = name.trim_end_matches(".rs").split('/').map(Into::into).collect();
        let root = module.len() == 1 && ["lib", "main", "bench"].contains(&&*module[0]);
        if root || module.last().is_some_and(|last| last == "mod") {
            module.pop();
        }
        self.files.insert(name.to_owned(), module.clone());
        self.modules.insert(module.clone(), name.to_owned());
        let tokens = text.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        self.walk(tokens, &module, name);
    }

    /// Returns the files that are no unit tests.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&String, &Module)> {
        self.files
            .iter()
            .filter(|(_, module)| !self.tests.iter().any(|test| module.starts_with(test)))
    }

    /// Returns the names that a file imports from another one, unless one of the two is below the
    /// other.
    pub(crate) fn imports(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        for Written { file, line, module, segments } in &self.paths {
            let is_test = self.tests.iter().any(|test| module.starts_with(test));
            let target = self.absolute(module, segments).and_then(|path| self.home(&path, 0));
            let Some(target) = target.filter(|target| *target != file && !is_test) else {
                continue;
            };
            let (from, to) = (self.files[file].clone(), self.files[target].clone());
            if !from.starts_with(&to) && !to.starts_with(&from) {
                let (file, target) = (file.clone(), target.to_owned());
                imports.push(Import {
                    file,
                    line: *line,
                    path: segments.join("::"),
                    from,
                    to,
                    target,
                });
            }
        }
        imports
    }

    /// Returns a path from the crate's root, or `None` if it leads out of the crate or is no module
    /// path.
    fn absolute(&self, module: &[String], segments: &[String]) -> Option<Vec<String>> {
        let (first, rest) = segments.split_first()?;
        match &**first {
            "crate" => Some(rest.to_vec()),
            "self" => Some([module, rest].concat()),
            "super" => {
                let ups = segments.iter().take_while(|segment| *segment == "super").count();
                Some([module.get(..module.len() - ups)?, &segments[ups..]].concat())
            }
            _ => {
                let child = [module, std::slice::from_ref(first)].concat();
                let known = self.modules.contains_key(&child)
                    || self.aliases.contains_key(&(module.to_vec(), first.clone()));
                known.then(|| [module, segments].concat())
            }
        }
    }

    /// Returns the file that defines a path from the root, or `None` if another crate does.
    fn home(&self, path: &[String], depth: u8) -> Option<&str> {
        let known =
            (0..=path.len()).take_while(|length| self.modules.contains_key(&path[..*length]));
        let (module, rest) = path.split_at(known.last()?);
        if let Some((name, rest)) = rest.split_first()
            && let Some(target) = self.aliases.get(&(module.to_vec(), name.clone()))
        {
            // A name like `async_trait::async_trait` refers to itself.
            let target = self.absolute(module, target).filter(|_| depth < 16)?;
            return self.home(&[&target, rest].concat(), depth + 1);
        }
        self.modules.get(module).map(|file| &**file)
    }

    /// Records the names in a module's tokens, without code for unit tests.
    fn walk(&mut self, tokens: TokenStream, module: &[String], file: &str) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        while let Some((_, behind)) = rest.split_first() {
            rest = match rest {
                [TokenTree::Punct(hash), TokenTree::Group(attribute), ..]
                    if hash.as_char() == '#' && is_test(attribute) =>
                {
                    let (item, behind) = item(&rest[2..]);
                    let names = item.windows(2).find(|two| is(&two[0], "mod"));
                    if let Some([_, TokenTree::Ident(name)]) = names {
                        self.tests.push([module, &[name.to_string()]].concat());
                    }
                    behind
                }
                [word, TokenTree::Ident(name), TokenTree::Group(body), ..] if is(word, "mod") => {
                    let module = [module, &[name.to_string()]].concat();
                    self.modules.insert(module.clone(), file.to_owned());
                    self.walk(body.stream(), &module, file);
                    &rest[3..]
                }
                [word, ..] if is(word, "use") => {
                    let end = behind.iter().position(|token| is_punct(token, ';'));
                    let (tree, behind) = behind.split_at(end.unwrap_or(0));
                    self.tree(tree, &[], module, file);
                    behind
                }
                [TokenTree::Ident(_), colon, ..] if is_punct(colon, ':') => {
                    let (names, behind) = names(rest);
                    if names.len() > 1 {
                        self.note(&names, module, file);
                    }
                    behind
                }
                [TokenTree::Group(group), ..] => {
                    self.walk(group.stream(), module, file);
                    behind
                }
                // Names after a colon follow a type here: `<T as Trait>::Name`.
                [one, other, TokenTree::Ident(_), ..]
                    if is_punct(one, ':') && is_punct(other, ':') =>
                {
                    names(&rest[2..]).1
                }
                _ => behind,
            }
        }
    }

    /// Records each branch of a `use`.
    fn tree(&mut self, tokens: &[TokenTree], prefix: &[Ident], module: &[String], file: &str) {
        let (names, rest) = names(tokens);
        let path = [prefix, &names].concat();
        if let [TokenTree::Group(group), ..] = rest {
            let branches: Vec<_> = group.stream().into_iter().collect();
            for branch in branches.split(|token| is_punct(token, ',')) {
                self.tree(branch, &path, module, file);
            }
        } else if let Some(last) = names.last() {
            let alias = match rest {
                [word, TokenTree::Ident(alias), ..] if is(word, "as") => alias,
                _ if last == "self" => prefix.last().unwrap_or(last),
                _ => last,
            };
            let path = if last == "self" { prefix } else { &path };
            let segments = self.note(path, module, file);
            if !rest.iter().any(|token| is_punct(token, '*')) {
                self.aliases.insert((module.to_vec(), alias.to_string()), segments);
            }
        }
    }

    fn note(&mut self, path: &[Ident], module: &[String], file: &str) -> Vec<String> {
        let segments: Vec<_> = path.iter().map(ToString::to_string).collect();
        let line = path.last().map_or(0, |last| last.span().start().line);
        let (file, module) = (file.to_owned(), module.to_vec());
        self.paths.push(Written { file, line, module, segments: segments.clone() });
        segments
    }
}

fn is(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

fn is_punct(token: &TokenTree, punct: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == punct)
}

/// Returns the names of a path up to the first other token, and the rest after the last `::`.
fn names(mut tokens: &[TokenTree]) -> (Vec<Ident>, &[TokenTree]) {
    let mut names = Vec::new();
    while let [TokenTree::Ident(name), rest @ ..] = tokens {
        names.push(name.clone());
        match rest {
            [one, other, rest @ ..] if is_punct(one, ':') && is_punct(other, ':') => tokens = rest,
            _ => return (names, rest),
        }
    }
    (names, tokens)
}

/// Returns `true` if an attribute restricts the next item to unit tests.
fn is_test(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// Splits off an item, a statement or a field with its other attributes; returns it and the rest.
fn item(tokens: &[TokenTree]) -> (&[TokenTree], &[TokenTree]) {
    let ends_at_braces = ["mod", "fn", "impl", "struct", "enum", "trait"];
    let mut braces = false;
    for (at, token) in tokens.iter().enumerate() {
        braces |= ends_at_braces.iter().any(|word| is(token, word));
        let block =
            matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        if is_punct(token, ';') || (is_punct(token, ',') && !braces) || (block && braces) {
            return tokens.split_at(at + 1);
        }
    }
    (tokens, &[])
}
