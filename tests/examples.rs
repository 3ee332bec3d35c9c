//! The examples are short, and each succeeds.

#![allow(clippy::expect_used, clippy::panic)] // a test fails by panicking

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The programs that most users write, and the longest of them, in lines.
const COMMON: ([&str; 12], usize) = (
    [
        "lock",
        "skip_if_busy",
        "wait",
        "cron",
        "leader",
        "follow",
        "semaphore",
        "read_write",
        "transfer",
        "drivers/src/bin/check", // docker/test runs it: it uses sqlx
        "service",
        "paused_clock",
    ],
    30,
);

/// Other uses, and the longest example of them, in lines.
const USES: ([&str; 4], usize) = (["workers", "rate_limit", "watched_config", "threads"], 40);

/// What the common examples print: how many lines contain each text.
const PRINTED: [(&str, &[(usize, &str)]); 9] = [
    ("lock", &[(2, "the report is written, with token ")]),
    ("skip_if_busy", &[(1, "busy: skipped"), (1, "free: written")]),
    ("wait", &[(1, "the other process unlocks"), (1, "the report is written")]),
    ("cron", &[(1, " writes it"), (1, " is done"), (2, " has nothing to do today")]),
    ("leader", &[(2, " leads, with token "), (2, " has resigned")]),
    ("follow", &[(1, "requests go to 10.0.0.7:8080"), (1, "requests go to 10.0.0.8:8080")]),
    ("semaphore", &[(1, "12 calls, at most ")]),
    (
        "read_write",
        &[
            (1, "two readers; a writer is granted: false"),
            (1, "a writer; a reader is granted: false"),
            (1, "a downgraded writer; a reader is granted: true"),
        ],
    ),
    ("transfer", &[(1, "alice has 930"), (1, "bob has 1070"), (1, "carol has 1000")]),
];

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
    for (examples, longest) in [(&COMMON.0[..], COMMON.1), (&USES.0[..], USES.1)] {
        for example in examples {
            let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/{}.rs"), example);
            let text = fs::read_to_string(path).expect("an example");
            // Its docs, and the empty lines between, are not counted.
            let code = text.lines().filter(|line| !line.is_empty() && !line.starts_with("//!"));
            assert!(code.count() <= longest, "{example}");
        }
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
    for example in USES.0.into_iter().chain(["quickstart"]) {
        if example == "threads" && !cfg!(feature = "blocking") {
            continue;
        }
        let ran = run(example, &[]);
        let text = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{example}: {text}");
        assert!(!ran.stdout.is_empty(), "{example} prints nothing");
    }
}

#[test]
fn common_examples_print_their_results() {
    for (example, printed) in PRINTED {
        let ran = run(example, &[]);
        let [said, error] =
            [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(ran.status.success(), "{example}: {error}");
        for (times, text) in printed {
            let found = said.lines().filter(|line| line.contains(text)).count();
            assert_eq!(found, *times, "{example}: {text:?} in {said}");
        }
        let lines: usize = printed.iter().map(|(times, _)| times).sum();
        assert_eq!(said.lines().count(), lines, "{example}: {said}");
        if example == "semaphore" {
            let most = said.split(' ').find_map(|word| word.parse().ok().filter(|most| *most < 12));
            assert!(most.is_some_and(|most: u32| (1..=5).contains(&most)), "{said}");
        }
    }
}

/// `paused_clock` is a test: cargo runs it.
#[test]
fn service_replies_to_probes_and_ends_on_sigterm() {
    let mut command = Command::new(built("service"));
    let mut child = command.stdout(Stdio::piped()).spawn().expect("cargo builds the examples");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("it prints").expect("text");
    let first = next();
    let address = first.strip_prefix("probes: http://").expect("an address");
    assert!(next().starts_with("batch: Ok("));
    let mut probe = TcpStream::connect(address).expect("it listens");
    probe.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it reads");
    let mut reply = String::new();
    probe.read_to_string(&mut reply).expect("a reply");
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    let signal = Command::new("kill").arg(child.id().to_string()).status();
    assert!(signal.expect("kill runs").success());
    let ended = child.wait().expect("it ends");
    assert!(ended.success(), "{ended}");
}

/// Runs instances of the whole program on this store, and returns how many rows were
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
