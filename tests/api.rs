//! Checks that the public API matches `tests/api.txt`, and that its docs have the required
//! sections.
//!
//! The list is generated from the sources: one line for each type, field, function and implemented
//! trait. A change of the API is a change of that file, which a reviewer sees. `DISTLOCK_BLESS=1
//! cargo test --test api` writes it.
//!
//! Public items are those with a plain `pub`: the lint `unreachable_pub` rejects it on items that
//! users cannot reach.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // also outside of test functions

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
};

use syn::{
    Attribute, Field, File, ImplItem, Item, Signature, TraitItem, Visibility, spanned::Spanned,
};

#[test]
fn public_api_matches_api_txt() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("tests/api.txt");
    let now = Api::read().text();
    if env::var_os("DISTLOCK_BLESS").is_some() {
        fs::write(&path, &now).unwrap();
    }
    let listed = fs::read_to_string(&path).unwrap();
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (listed.lines().collect(), now.lines().collect());
    let removed = old.difference(&new).map(|line| format!("- {line}\n"));
    let added = new.difference(&old).map(|line| format!("+ {line}\n"));
    let changes: String = removed.chain(added).collect();
    assert!(
        listed == now,
        "the public API differs from tests/api.txt:\n{changes}\n\
         If that is intended, update the list: DISTLOCK_BLESS=1 cargo test --test api"
    );
}

/// Returns the store that an example connects to: memory, except for modules of one store.
fn store(line: &str) -> String {
    let doors = [("mysql", "mysql"), ("postgres", "postgres"), ("sqlx_0_9", "postgres")];
    let door = doors.into_iter().find(|(door, _)| line.contains(&format!("fn {door}::")));
    format!("{}://", door.map_or("memory", |(_, store)| store))
}

#[test]
fn the_docs_of_async_functions_document_errors_and_cancel_safety_and_have_an_example() {
    let api = Api::read();
    assert!(api.async_functions.len() > 40, "async functions are missing");
    let mut lacking = String::new();
    for (line, docs, fallible) in &api.async_functions {
        let example = docs.split_once("# Examples").and_then(|(_, rest)| rest.split_once("```"));
        for (what, there) in [
            ("# Errors", !fallible || docs.contains("# Errors")),
            ("# Cancel safety", docs.contains("# Cancel safety")),
            ("memory://", example.is_some_and(|(_, code)| code.contains(&store(line)))),
        ] {
            if !there {
                lacking += &format!("{what:20}{line}\n");
            }
        }
    }
    assert!(lacking.is_empty(), "the docs lack\n{lacking}");
}

struct Module {
    /// The path prefix of its items for users, if it is public.
    prefix: String,
    /// The features that it requires.
    cfg: String,
    file: File,
}

#[derive(Default)]
struct Api {
    modules: Vec<Module>,
    /// The path for users of each public type, trait and function.
    names: BTreeMap<String, String>,
    /// The lines by the item that they describe, in order.
    lines: BTreeSet<(String, u8, String)>,
    /// Async functions with their docs, and whether they may fail.
    async_functions: Vec<(String, String, bool)>,
}

impl Api {
    fn read() -> Self {
        let mut api = Self::default();
        let src = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("src");
        api.load(&src.join("lib.rs"), &src, "", "");
        let modules = std::mem::take(&mut api.modules);
        for Module { prefix, cfg, file } in &modules {
            for item in &file.items {
                let Some((ident, vis, attrs)) = head(item) else { continue };
                if public(vis) {
                    api.item(item, &format!("{prefix}{ident}"), &needs(cfg, attrs), attrs);
                    api.names.insert(ident.clone(), format!("{prefix}{ident}"));
                }
            }
        }
        for module in &modules {
            api.impls(module, &modules);
        }
        api
    }

    fn text(&self) -> String {
        let mut lines = self.lines.iter().peekable();
        let mut text = String::new();
        while let Some((item, _, line)) = lines.next() {
            let end = lines.peek().is_some_and(|(next, ..)| next != item);
            text += &format!("{line}\n{}", if end { "\n" } else { "" });
        }
        text
    }

    /// Reads a module after its submodules, which are in `dir`.
    fn load(&mut self, path: &Path, dir: &Path, prefix: &str, cfg: &str) {
        let file = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
        for item in &file.items {
            let Item::Mod(item) = item else { continue };
            let (inline, cfg) = (item.content.is_some(), needs(cfg, &item.attrs));
            if inline || cfg.contains("(test)") {
                continue;
            }
            let name = item.ident.to_string();
            let files = [dir.join(format!("{name}.rs")), dir.join(&name).join("mod.rs")];
            let file = files.iter().find(|file| file.exists()).expect("a module has a file");
            let prefix = if public(&item.vis) { format!("{name}::") } else { String::new() };
            self.load(file, &dir.join(&name), &prefix, &cfg);
        }
        self.modules.push(Module { prefix: prefix.to_owned(), cfg: cfg.to_owned(), file });
    }

    fn line(&mut self, item: &str, order: u8, cfg: &str, line: &str) {
        self.lines.insert((item.to_owned(), order, format!("{cfg}{line}")));
    }

    /// Adds an item, without its impls.
    fn item(&mut self, item: &Item, name: &str, cfg: &str, attrs: &[Attribute]) {
        let open = |attrs| if has(attrs, "non_exhaustive") { "#[non_exhaustive] " } else { "" };
        let kind = |kind: &str| format!("{}pub {kind} {name}", open(attrs));
        match item {
            Item::Struct(item) => {
                self.line(name, 0, cfg, &(kind("struct") + &source(&item.generics)));
                for field in item.fields.iter().filter(|field| public(&field.vis)) {
                    self.line(name, 1, cfg, &format!("pub {name}.{}", shown(field)));
                }
            }
            Item::Enum(item) => {
                self.line(name, 0, cfg, &(kind("enum") + &source(&item.generics)));
                for variant in &item.variants {
                    let fields: Vec<_> = variant.fields.iter().map(shown).collect();
                    let fields = format!(" {{ {} }}", fields.join(", ")).replace(" {  }", "");
                    let (open, ident) = (open(&variant.attrs), &variant.ident);
                    self.line(name, 1, cfg, &format!("{open}{name}::{ident}{fields}"));
                }
            }
            Item::Trait(item) => {
                self.line(name, 0, cfg, &(kind("trait") + ": " + &source(&item.supertraits)));
                for item in &item.items {
                    let TraitItem::Fn(item) = item else {
                        panic!("{name} has items other than functions")
                    };
                    let path = format!("{name}::{}", item.sig.ident);
                    self.function(name, &path, &item.sig, &item.attrs, cfg);
                }
            }
            Item::Type(item) => {
                let (generics, ty) = (source(&item.generics), source(&item.ty));
                self.line(name, 0, cfg, &format!("{}{generics} = {ty}", kind("type")));
            }
            Item::Fn(item) => self.function(name, name, &item.sig, attrs, cfg),
            _ => panic!("{name} is of a kind that this test does not support"),
        }
        for attribute in attrs.iter().filter(|attribute| attribute.path().is_ident("derive")) {
            let text = source(attribute);
            let derived = text.trim_start_matches("#[derive(").trim_end_matches(")]");
            for derived in derived.split(", ") {
                let derived = derived.rsplit("::").next().unwrap_or(derived);
                self.line(name, 3, cfg, &format!("impl {derived} for {name}"));
            }
        }
    }

    fn function(&mut self, of: &str, path: &str, sig: &Signature, attrs: &[Attribute], cfg: &str) {
        let text = source(sig).replace("(mut ", "(").replace(", mut ", ", ");
        let text = text.replacen(&format!("fn {}", sig.ident), &format!("fn {path}"), 1);
        if sig.asyncness.is_some() {
            let output = source(&sig.output);
            let docs = attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
            let docs = docs.map(|line| source(line).replace("/// ", "") + "\n").collect();
            self.async_functions.push((text.clone(), docs, output.contains("Result<")));
        }
        self.line(of, 2, &needs(cfg, attrs), &format!("pub {text}"));
    }

    /// Adds the methods of public types, and the traits that they implement or are arguments of.
    fn impls(&mut self, module: &Module, all: &[Module]) {
        let private = |module: &Module, ident: &str, traits: bool| {
            module.file.items.iter().any(|item| {
                let named =
                    |(other, vis, _): (String, &Visibility, _)| other == ident && !public(vis);
                matches!(item, Item::Trait(_)) == traits && head(item).is_some_and(named)
            })
        };
        for item in &module.file.items {
            let Item::Impl(item) = item else { continue };
            let (cfg, of) = (&needs(&module.cfg, &item.attrs), source(&item.self_ty));
            let ident = of.split('<').next().unwrap_or(&of);
            let name = self.names.get(ident).filter(|_| !private(module, ident, false)).cloned();
            let Some((path, _)) = &item.trait_ else {
                let Some(name) = name else { continue };
                for item in &item.items {
                    if let ImplItem::Fn(item) = item
                        && public(&item.vis)
                    {
                        let path = format!("{name}::{}", item.sig.ident);
                        self.function(&name, &path, &item.sig, &item.attrs, cfg);
                    }
                }
                continue;
            };
            let last = path.segments.last().expect("a trait has a name");
            let private =
                |ident: &str, traits| all.iter().any(|module| private(module, ident, traits));
            if private(&last.ident.to_string(), true) || name.is_none() && private(ident, false) {
                continue;
            }
            let text = source(last);
            let mut words = text.split(['<', '>', ',', ' ']);
            let about = name.or_else(|| words.find_map(|word| self.names.get(word).cloned()));
            let types = item.items.iter().filter_map(|item| match item {
                ImplItem::Type(item) => Some(format!(", {} = {}", item.ident, source(&item.ty))),
                _ => None,
            });
            let (generics, types) = (source(&item.generics), types.collect::<String>());
            if let Some(about) = about {
                self.line(&about, 3, cfg, &format!("impl{generics} {text} for {of}{types}"));
            }
        }
    }
}

/// Returns the name, visibility and attributes of an item's definition.
fn head(item: &Item) -> Option<(String, &Visibility, &[Attribute])> {
    let (ident, vis, attrs) = match item {
        Item::Const(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Enum(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Fn(item) => (&item.sig.ident, &item.vis, &item.attrs),
        Item::Struct(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Trait(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Type(item) => (&item.ident, &item.vis, &item.attrs),
        _ => return None,
    };
    Some((ident.to_string(), vis, attrs))
}

fn shown(field: &Field) -> String {
    let name = field.ident.as_ref().map_or_else(String::new, |name| format!("{name}: "));
    name + &source(&field.ty)
}

fn public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn has(attrs: &[Attribute], attribute: &str) -> bool {
    attrs.iter().any(|found| source(found) == format!("#[{attribute}]"))
}

/// Returns the `cfg` attributes that an item requires, including those around it.
fn needs(around: &str, attrs: &[Attribute]) -> String {
    let own = attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    own.fold(around.to_owned(), |cfg, attribute| cfg + &source(attribute) + " ")
}

/// Returns the source text in one line.
fn source(of: &impl Spanned) -> String {
    let text = of.span().source_text().unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace("( ", "(").replace(", )", ")").trim_end_matches(',').to_owned()
}
