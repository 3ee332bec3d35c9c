//! `distlock run -n`, as in a crontab of many hosts: a host was switched off during its job, and
//! later processes are too short-lived to observe that its session has expired. Also, what only
//! these databases promise or refuse.

use std::time::{Duration, Instant};

use distlock_testkit::{docker::OwnServer, servers};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::store::{Output, distlock_at, ended_by, run, until, until_written};

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

/// A client of version 1 has a session, so no other session begins.
#[tokio::test]
async fn conflict_exit_code_applies_while_connecting() {
    let server = OwnServer::start("redis", &["--publish=127.0.0.1::6379"], &[]).await;
    let address = server.address(6379).await;
    let redis = ["redis-cli", "--user", "default", "--pass", "root", "--no-auth-warning"];
    let ask = async |words: &[&str]| server.run(&[&redis[..], words].concat()).await;
    // The server may still be starting.
    until("the server replies", async || {
        tokio::net::TcpStream::connect(address).await.is_ok() && ask(&["PING"]).await == "PONG"
    })
    .await;
    ask(&["HSET", "{distlock}:meta", "version", "1"]).await;
    ask(&["ZADD", "{distlock}:sessions", "99999999999999999", "1f"]).await;
    let url = format!("redis://app:apppw@{address}?connect_timeout=500ms");
    for (options, code) in [(&[][..], 75), (&["--conflict-exit-code", "0"], 0)] {
        let args = [&["run", "job", "--json"], options, &["--", "false"]].concat();
        let output = run(distlock_at(&url, &args)).await;
        assert_eq!(output.code(), code, "{output:?}");
        assert_eq!(Output::objects(&output.err)[0]["event"], "busy", "{output:?}");
    }
}

#[tokio::test]
async fn doctor_shows_the_condition_of_redlock() {
    let output = run(distlock_at(&servers::redlock_url(), &["doctor", "--json"])).await;
    assert_eq!(output.code(), 0, "{output:?}");
    let checks = Output::objects(&output.out);
    let promise = checks.iter().find(|object| object["check"] == "promise").expect("it is checked");
    assert_eq!(promise["verdict"], "ok", "{promise}");
    let advice = promise["advice"].as_str().unwrap_or_default();
    assert!(advice.starts_with("note: ") && advice.contains("FLUSHALL"), "{promise}");
}
