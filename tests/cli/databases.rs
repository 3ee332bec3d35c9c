//! `distlock run -n`, as in a crontab of many hosts: a host was switched off during its job, and
//! later processes are too short-lived to observe that its session has expired.

use std::time::{Duration, Instant};

use distlock_testkit::servers;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::store::{distlock_at, ended_by, run, until_written};

async fn next_run_after_a_killed_one_gets_the_lock(url: &str) {
    let url = format!("{url}/cli-{}", std::process::id());
    let place = tempfile::TempDir::new().expect("a folder");
    let there = place.path().join("there");
    let script = format!("echo 1 >{}; exec sleep 100", there.display());
    let job = ["run", "-n", "--ttl", "2s", "job", "--"];
    let mut holder = distlock_at(&url, &[&job[..], &["sh", "-c", &script]].concat());
    let holder = holder.spawn().expect("the process starts");
    until_written(&there).await;
    ended_by(holder, Signal::KILL).await;
    let killed = Instant::now();
    let mut codes = Vec::new();
    while codes.last() != Some(&0) {
        let output = run(distlock_at(&url, &[&job[..], &["true"]].concat())).await;
        // Held, or not known to be free yet; never "no server of the store answers".
        assert!(matches!(output.code(), 0 | 75), "{output:?}");
        codes.push(output.code());
        assert!(killed.elapsed() < Duration::from_secs(20), "{codes:?}");
        sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test]
async fn next_run_after_a_killed_one_gets_the_lock_on_postgres() {
    next_run_after_a_killed_one_gets_the_lock(&servers::postgres_url()).await;
}

#[tokio::test]
async fn next_run_after_a_killed_one_gets_the_lock_on_mysql() {
    next_run_after_a_killed_one_gets_the_lock(&servers::mysql_url()).await;
}

#[tokio::test]
async fn next_run_after_a_killed_one_gets_the_lock_on_redis() {
    next_run_after_a_killed_one_gets_the_lock(&format!("{}/0", servers::redis_url())).await;
}
