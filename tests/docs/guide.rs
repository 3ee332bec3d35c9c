//! The crate's docs contain the guide, the site has every page, and the programs of the migration
//! pages are compiled.

use std::{collections::BTreeMap, env, fs};

use super::{REPOSITORY, add_files, read, root};

/// Where rustdoc finds pictures.
const PICTURES: &str = "https://raw.githubusercontent.com/distlock/distlock/main/";

/// The paths and titles of the site's pages, in their order.
fn chapters() -> Vec<(String, String)> {
    let summary = read("docs/SUMMARY.md");
    let chapters = summary.lines().filter_map(|line| {
        let (title, path) = line.trim_start_matches(['-', ' ', '[']).split_once("](")?;
        Some((path.trim_end_matches(')').to_owned(), title.to_owned()))
    });
    chapters.collect()
}

#[test]
fn site_has_every_page() {
    let (chapters, mut files) = (chapters(), Vec::new());
    add_files("docs", &mut files);
    for (name, _) in files.iter().filter(|(name, _)| name.ends_with(".md")) {
        let path = &name["docs/".len()..];
        let listed = path == "SUMMARY.md" || chapters.iter().any(|(chapter, _)| chapter == path);
        assert!(listed, "{name} is not in docs/SUMMARY.md");
    }
}

/// The module of a page of the guide.
fn module(page: &str) -> String {
    page.trim_end_matches(".md").replace('-', "_")
}

/// Where rustdoc finds what a relative link of a page of the guide leads to.
fn target(page: &str, link: &str) -> String {
    let (path, heading) = link.split_at(link.find('#').unwrap_or(link.len()));
    let path = if path.is_empty() { page } else { path };
    let Some(outside) = path.strip_prefix("../") else {
        assert!(path.ends_with(".md") && !path.contains('/'), "docs/guide/{page}: {link}");
        return format!("crate::guide::{}{heading}", module(path));
    };
    let site = if path.ends_with(".svg") { PICTURES } else { REPOSITORY };
    format!("{site}docs/{outside}{heading}")
}

/// The lines of a page that are not code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The crate's docs cannot resolve a page's relative links. The first definition of a label is the
/// one that counts, so `src/guide.md` redefines them for all pages.
fn definitions(pages: &[(String, String)]) -> String {
    let mut all = BTreeMap::new();
    for (page, _) in pages {
        let text = read(&format!("docs/guide/{page}"));
        for line in prose(&text) {
            for link in line.split("](").skip(1) {
                let absolute = link.starts_with('#') || link.starts_with("https://");
                assert!(absolute, "docs/guide/{page}: define the link at the page's end: {line}");
            }
            let definition = line.strip_prefix('[').and_then(|line| line.split_once("]: "));
            let Some((label, link)) = definition else { continue };
            let absolute = link.starts_with("https://");
            let target = if absolute { link.to_owned() } else { target(page, link) };
            let known = all.entry(label.to_lowercase()).or_insert((target.clone(), absolute));
            assert_eq!(known.0, target, "docs/guide/{page}: [{label}] differs from another page's");
            known.1 &= absolute;
        }
    }
    let relative = all.into_iter().filter(|(_, (_, absolute))| !absolute);
    relative.map(|(label, (target, _))| format!("[{label}]: {target}\n")).collect()
}

/// The text of `src/guide.rs`.
fn modules(pages: &[(String, String)]) -> String {
    let mut text = String::from("//! The guide to this version of distlock.\n//!\n");
    for (page, title) in pages {
        text += &format!("//! - [{title}]({})\n", module(page));
    }
    text += "//!\n\
             //! The repository has the pages about [stores, operations, migration and design].\n\
             //!\n\
             //! [stores, operations, migration and design]:\n";
    text += &format!("//! {REPOSITORY}docs/README.md\n\n");
    text += "// `DISTLOCK_BLESS=1 cargo test --test docs` writes this file and guide.md, which\n\
             // redefines the relative links of the pages.\n";
    let mut pages: Vec<_> = pages.iter().map(|(page, _)| page).collect();
    pages.sort();
    for page in pages {
        text += &format!(
            "\n#[doc = include_str!(\"guide.md\")]\n\
             #[doc = include_str!(\"../docs/guide/{page}\")]\n\
             pub mod {} {{}}\n",
            module(page)
        );
    }
    text
}

#[test]
fn crate_contains_the_guide() {
    let pages = chapters()
        .into_iter()
        .filter_map(|(path, title)| Some((path.strip_prefix("guide/")?.to_owned(), title)));
    let pages: Vec<_> = pages.collect();
    assert!(pages.len() > 4, "{pages:?}");
    for (name, now) in [("src/guide.md", definitions(&pages)), ("src/guide.rs", modules(&pages))] {
        if env::var_os("DISTLOCK_BLESS").is_some() {
            fs::write(root().join(name), &now).expect("the file is written");
        }
        assert!(
            fs::read_to_string(root().join(name)).is_ok_and(|text| text == now),
            "{name} is outdated. Run: DISTLOCK_BLESS=1 cargo test --test docs\n{now}"
        );
    }
}

/// The library's package lacks these pages, so its own tests do not compile their code.
#[test]
fn rust_code_of_migration_pages_is_compiled() {
    let (included, mut pages) = (read("tests/pages/src/lib.rs"), Vec::new());
    add_files("docs/migrate", &mut pages);
    assert!(pages.len() > 4, "{} pages", pages.len());
    for (page, text) in &pages {
        let fences = text.lines().filter_map(|line| line.trim_start().strip_prefix("```rust"));
        let mut marks = fences.flat_map(|marks| marks.split(','));
        assert!(!marks.any(|mark| mark == "ignore"), "{page}: nothing compiles a block");
        let include = format!("include_str!(\"../../../{page}\")");
        assert!(included.contains(&include), "{page} is not in tests/pages/src/lib.rs");
    }
}
