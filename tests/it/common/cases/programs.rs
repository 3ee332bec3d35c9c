//! Random programs, the same on every store.

use std::{collections::HashSet, env, fs, io::Write as _};

use futures_util::stream::{self, StreamExt};

use crate::common::{
    Case, SOON,
    programs::{program, run, shrunk},
};

/// The number of programs on a server, of those in memory or on a file, and of concurrent ones.
const PROGRAMS: u64 = 50;
const NEAR: u64 = 500;
const AT_ONCE: usize = 8;

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// Runs `DISTLOCK_PROGRAMS` programs from the seed `DISTLOCK_PROGRAM` on. It skips programs listed
/// in the file `DISTLOCK_PROGRAMS_DONE`, and adds each program that it has run.
pub(crate) async fn random_programs_match_the_model(t: &Case) {
    let number = |name| variable(name).map(|text| text.parse::<u64>().expect("a number"));
    let is_near = ["memory:", "sqlite:"].iter().any(|near| t.store.url().starts_with(near));
    let usual = if is_near { NEAR } else { PROGRAMS };
    let count = number("DISTLOCK_PROGRAMS").unwrap_or(usual);
    let first = number("DISTLOCK_PROGRAM").unwrap_or_else(|| fastrand::u64(..1 << 40));
    println!("programs {first} to {}", first + count - 1);
    let done = variable("DISTLOCK_PROGRAMS_DONE");
    let line = |seed: u64| format!("{} {seed}", t.store.url());
    let before = done.as_ref().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let before: HashSet<&str> = before.lines().collect();
    let seeds = (first..first + count).filter(|seed| !before.contains(&*line(*seed)));
    let runs = stream::iter(seeds).map(async |seed| (seed, run(t, &program(seed), SOON * 2).await));
    let mut runs = runs.buffer_unordered(AT_ONCE);
    while let Some((seed, outcome)) = runs.next().await {
        if let Err(difference) = outcome {
            println!("program {seed}: {difference}");
            let (calls, shorter) = shrunk(t, program(seed)).await;
            panic!("program {seed}: {difference}\n{} calls: {shorter}\n{calls:?}", calls.len());
        }
        if let Some(file) = &done {
            let file = fs::File::options().create(true).append(true).open(file);
            writeln!(file.expect("a file"), "{}", line(seed)).expect("written");
        }
    }
}
