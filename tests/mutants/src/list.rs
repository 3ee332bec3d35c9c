//! The changes, as cargo-mutants lists them.

use std::{fs, path::Path, process::Command};

use serde::{Deserialize, Serialize};

/// One change; its number is its index in the list.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) genre: Genre,
    pub(crate) replacement: String,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Span {
    pub(crate) start: Place,
}

/// Both count from 1.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// Copies the last commit of the current tree.
pub(crate) fn copy(tree: &Path) {
    if tree.exists() {
        fs::remove_dir_all(tree).expect("the old copy goes");
    }
    let mut git = Command::new("git");
    let cloned = git.args(["clone", "--quiet", "--shared", "."]).arg(tree).status();
    assert!(cloned.is_ok_and(|status| status.success()), "git clone");
}

pub(crate) fn list(tree: &Path, files: &[String]) -> Vec<Mutant> {
    let mut mutants = Command::new("cargo");
    mutants.args(["mutants", "--package", "distlock", "--list", "--json"]).current_dir(tree);
    for file in files {
        mutants.args(["--file", file]);
    }
    let output = mutants.output().expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo mutants: {}; install it by `cargo install --locked cargo-mutants`",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("a list of mutants")
}
