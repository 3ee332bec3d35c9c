//! Processes that are stopped for about as long as their sessions live.

use std::time::Duration;

use distlock_testkit::{backend::Backend, deletion::deletion, proxies::Proxies, proxy::Mode};
use tokio::{task::JoinSet, time::sleep};
use zookeeper_client::Client;

use crate::common::{
    Harness, Job, Members, alone,
    process::Process,
    zookeeper::{ZooKeeper, mode_of},
};

/// Side by side, and a part of a tick apart: it depends on the servers' ticks when a session ends.
const PROCESSES: u32 = 8;

const TICK: Duration = Duration::from_secs(1);

/// An idle process is stopped for T and half a tick, and locks as it wakes. The leader passes the
/// write of a session that it is about to end: a follower tells it only later that the session was
/// heard of. The process hears nothing more of that end, and must not hold the lock when its node
/// is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_slept_proves_nothing_for_a_while() {
    alone::<ZooKeeper>(async |t| {
        let ttl = t.store.min_ttl();
        let (mut leader, mut followers) = (None, Vec::new());
        for server in t.store.network().1 {
            match mode_of(*server).await.as_str() {
                "leader" => leader = Some(*server),
                _ => followers.push(*server),
            }
        }
        let watcher =
            Client::connect(&leader.expect("an ensemble has a leader").to_string()).await.unwrap();
        let mut overlaps = Vec::new();
        for round in 0..3 {
            let mut processes = JoinSet::new();
            for number in 0..PROCESSES {
                let job =
                    Job { sleeps: true, ..Job::new(t, &format!("slept-{round}-{number}"), ttl) };
                let proxies = Proxies::start(Backend::ZooKeeper, &followers).await;
                let apart = TICK * number / PROCESSES;
                processes.spawn(sleep_and_lock(job, apart, proxies, watcher.clone()));
            }
            overlaps.extend(
                processes.join_all().await.into_iter().filter(|overlap| !overlap.is_zero()),
            );
        }
        assert!(
            overlaps.is_empty(),
            "guards were valid for {overlaps:?} when their nodes were gone"
        );
    })
    .await;
}

/// For how long the guard was valid after its node was gone.
async fn sleep_and_lock(job: Job, apart: Duration, proxies: Proxies, watcher: Client) -> Duration {
    let mut process = Process::start(&proxies.url(), &job);
    process.idle().await;
    // There is an answer to a ping under way when it stops: with something to read it does not
    // notice, when it wakes, how long it has heard nothing. It pings at least every eighth of T.
    sleep(job.ttl / 5 + apart).await;
    proxies.set(&Mode::BlackholeToClient);
    sleep(job.ttl.mul_f64(0.11)).await;
    process.stop().await;
    proxies.set(&Mode::Pass);
    sleep(job.ttl + TICK / 2).await;
    let key = process.wake().await;
    proxies.set(&Mode::BlackholeToClient);
    let deleted = tokio::spawn(async move { deletion(&watcher, &key).await });
    let valid = process.last_valid().await;
    // With its process its session ends, now or soon.
    drop(process);
    let deleted = deleted.await.expect("it does not panic").expect("the leader answers");
    Duration::from_micros(valid.saturating_sub(deleted))
}
