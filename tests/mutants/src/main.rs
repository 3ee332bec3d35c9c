//! Tests the changes of `cargo mutants` without a build for each change.
//!
//! All changes are planted into one copy of the tree, each behind a condition on an environment
//! variable, so a change costs a run and not a build. First each test reports which changes it
//! reaches. Then each change is tested by these tests, the fastest first. If none of them fails,
//! the simulation's seeds follow. Every change that nothing catches is printed on a line.

#![allow(clippy::expect_used, clippy::panic)] // a tool for developers: it says where it failed

mod builds;
mod hunt;
mod list;
mod plant;
mod program;
mod reach;

use std::{fs, path::PathBuf};

use lexopt::prelude::*;

const HELP: &str = "\
Usage: mutants [--work DIR] [--file GLOB]... [--seeds N] [--jobs N] [--only ID,ID...]

Tries each change of cargo-mutants (which has to be installed) to the files of the last commit.
  --work DIR   for the copy, the builds and the report (target/mutants)
  --file GLOB  whose changes to try (src/queue/**, src/session/** and src/primitives/**)
  --seeds N    how many histories of the simulation to try a change with (1500)
  --jobs N     how many tests to run at a time (6)
  --only IDS   of the last list, without a new one";

/// The command line.
struct Args {
    work: PathBuf,
    files: Vec<String>,
    seeds: u32,
    jobs: usize,
    only: Vec<usize>,
}

fn args() -> Result<Args, lexopt::Error> {
    let mut args = Args {
        work: "target/mutants".into(),
        files: Vec::new(),
        seeds: 1500,
        jobs: 6,
        only: Vec::new(),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("work") => args.work = parser.value()?.into(),
            Long("file") => args.files.push(parser.value()?.string()?),
            Long("seeds") => args.seeds = parser.value()?.parse()?,
            Long("jobs") => args.jobs = parser.value()?.parse()?,
            Long("only") => {
                for id in parser.value()?.string()?.split(',') {
                    args.only.push(id.parse().map_err(|_| format!("{id} is no number"))?);
                }
            }
            Short('h') | Long("help") => {
                println!("{HELP}");
                std::process::exit(0);
            }
            other => return Err(other.unexpected()),
        }
    }
    if args.files.is_empty() {
        args.files = ["queue", "session", "primitives"].map(|dir| format!("src/{dir}/**")).into();
    }
    Ok(args)
}

fn main() {
    let args = args().unwrap_or_else(|error| {
        eprintln!("mutants: {error}; see --help");
        std::process::exit(2);
    });
    fs::create_dir_all(&args.work).expect("a folder to work in");
    let work = args.work.canonicalize().expect("a folder to work in");
    let tree = work.join("tree");
    let mutants = if args.only.is_empty() {
        list::copy(&tree);
        let mutants = list::list(&tree, &args.files);
        fs::write(work.join("list.json"), serde_json::to_vec(&mutants).expect("the list is JSON"))
            .expect("the list is written");
        mutants
    } else {
        serde_json::from_slice(&fs::read(work.join("list.json")).expect("a list from before"))
            .expect("the list is one of this program")
    };
    let planted = match args.only.as_slice() {
        [] => builds::plant(&work, &tree, &mutants),
        only => only.iter().copied().collect(),
    };
    let builds = builds::build(&work, &tree);
    println!("{} changes, {} of them can be built", mutants.len(), planted.len());
    let reach = reach::reach(&work, &builds, args.jobs);
    hunt::hunt(&work, &mutants, &planted, &builds, &reach, args.seeds, args.jobs);
}
