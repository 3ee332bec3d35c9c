//! The examples: short enough to be read, and each does what it says.

#![allow(clippy::expect_used, clippy::panic)] // a test fails by panicking

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Each is one use, as users write it.
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

/// The longest example, in lines.
const LONGEST: usize = 40;

/// On a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

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
        // Its docs, and the empty lines between, are not counted.
        let code = text.lines().filter(|line| !line.is_empty() && !line.starts_with("//!"));
        assert!(code.count() <= LONGEST, "{example}");
    }
}

/// What it says fits into a pipe.
fn run(example: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(built(example));
    let started = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| {
        panic!("{example}: {error}; `cargo test` builds the examples, as does `--examples`")
    });
    let start = Instant::now();
    while child.try_wait().expect("its state").is_none() {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("{example} does not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("what it says")
}

/// Each checks itself what came of it.
#[test]
fn examples_do_what_they_say() {
    for example in USES.into_iter().chain(["quickstart"]) {
        // Of one that is a test, cargo runs the test, and builds no program.
        if example == "paused_clock" || example == "threads" && !cfg!(feature = "blocking") {
            continue;
        }
        let ran = run(example, &[]);
        let text = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{example}: {text}");
        assert!(!ran.stdout.is_empty(), "{example} says nothing");
    }
}

/// Runs instances of the whole program on this store, and tells how many of how many rows were
/// processed twice.
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
    let [said, error] =
        [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(ran.status.success(), "{error}");
    let last = said.lines().last().and_then(|line| line.strip_prefix("rows 100, processed twice "));
    last.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("it says {said:?}"))
}

/// Each of these keeps the lock; the rows are there, too, or in a file, if that is nothing to keep
/// rows in, or nothing is named.
macro_rules! processed_once_under_the_lock {
    ($($store:ident, $feature:literal, $url:expr;)*) => { $(
        #[cfg(feature = $feature)]
        #[test]
        fn $store() {
            let url: Option<String> = $url;
            assert_eq!(processed_twice(url.as_deref(), &[]), 0);
            let unlocked = processed_twice(url.as_deref(), &["--unlocked"]);
            assert!(unlocked > 0, "there was nothing to prevent");
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
