//! The examples are short, and each succeeds.

#![allow(clippy::expect_used, clippy::panic)] // a test fails by panicking

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Examples of one use each, as users write it.
const USES: [&str; 8] = [
    "cron",
    "workers",
    "leader",
    "paused_clock",
    "transfer",
    "rate_limit",
    "watched_config",
    "threads",
];

/// The maximum number of lines.
const LONGEST: usize = 40;

/// The time limit of an example, on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn built(example: &str) -> PathBuf {
    // target/debug/deps/examples-…
    let own = env::current_exe().expect("a path");
    let target = own.parent().and_then(Path::parent).expect("a target directory");
    target.join("examples").join(format!("{example}{}", env::consts::EXE_SUFFIX))
}

#[test]
fn examples_are_short() {
    for example in USES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../examples/{example}.rs"));
        let text = fs::read_to_string(path).expect("an example");
        // Docs and empty lines are not counted.
        let code = text.lines().filter(|line| !line.is_empty() && !line.starts_with("//!"));
        assert!(code.count() <= LONGEST, "{example}");
    }
}

/// Runs an example. Its output fits into a pipe.
fn run(example: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(built(example));
    let started = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| {
        panic!("{example}: {error}; `cargo test` builds the examples, as does `--examples`")
    });
    let start = Instant::now();
    while child.try_wait().expect("a status").is_none() {
        if start.elapsed() > TIME_LIMIT {
            let _ = child.kill();
            panic!("{example} does not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("the output")
}

/// Each example checks its own result.
#[test]
fn examples_succeed() {
    for example in USES.into_iter().chain(["quickstart"]) {
        // cargo runs an example that is a test, and builds no program.
        if example == "paused_clock" || example == "threads" && !cfg!(feature = "blocking") {
            continue;
        }
        let ran = run(example, &[]);
        let text = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{example}: {text}");
        assert!(!ran.stdout.is_empty(), "{example} prints nothing");
    }
}

/// Runs instances of the whole program on this store, and returns how many rows were processed
/// twice.
#[cfg(any(
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "redlock",
    feature = "sqlite"
))]
fn processed_twice(url: Option<&str>, options: &[&str]) -> u32 {
    let url = url.map(|url| ["--url", url]);
    let arguments = url.iter().flatten().chain(options).chain(&["--rows", "100"]);
    let ran = run("scheduled_task", &arguments.copied().collect::<Vec<_>>());
    let [output, error] =
        [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(ran.status.success(), "{error}");
    let last =
        output.lines().last().and_then(|line| line.strip_prefix("rows 100, processed twice "));
    last.and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("unexpected output: {output:?}"))
}

/// Each of these stores keeps the lock. The rows are in the same store, or in a file if the store
/// cannot keep rows or none is named.
macro_rules! processed_once_under_the_lock {
    ($($store:ident, $feature:literal, $url:expr;)*) => { $(
        #[cfg(feature = $feature)]
        #[test]
        fn $store() {
            let url: Option<String> = $url;
            assert_eq!(processed_twice(url.as_deref(), &[]), 0);
            let unlocked = processed_twice(url.as_deref(), &["--unlocked"]);
            assert!(unlocked > 0, "without the lock, no row was processed twice");
        }
    )* };
}

processed_once_under_the_lock! {
    only_the_lock_on_postgresql, "postgres", Some(distlock_testkit::servers::postgres_url());
    only_the_lock_on_mysql, "mysql", Some(distlock_testkit::servers::mysql_url());
    only_the_lock_on_a_file, "sqlite", None;
    only_the_lock_on_redis, "redis", Some(distlock_testkit::servers::redis_url());
    only_the_lock_on_valkey, "redis", Some(distlock_testkit::servers::valkey_url());
    only_the_lock_on_redlock, "redlock", Some(distlock_testkit::servers::redlock_url());
}
