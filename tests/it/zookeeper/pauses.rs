//! Processes that are paused for about as long as their sessions' TTL.

use std::time::Duration;

use distlock_testkit::{backend::Backend, deletion::deletion, proxies::Proxies, proxy::Mode};
use tokio::{task::JoinSet, time::sleep};
use zookeeper_client::Client;

use crate::common::{
    Harness, Job, Members, alone,
    process::Process,
    zookeeper::{ZooKeeper, mode_of},
};

/// The number of processes, spread over one tick: a session's expiry depends on the servers' ticks.
const PROCESSES: u32 = 8;

const ROUNDS: u32 = 3;

const TICK: Duration = Duration::from_secs(1);

/// An idle process is paused for a TTL and half a tick, and locks when it resumes. The leader
/// accepts a write of a session that it is about to expire, because a follower reports the
/// session's activity late. The process is not notified of that expiry, and must not hold the lock
/// once its node is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_process_does_not_trust_its_session_at_once() {
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
        let (mut held, mut overlaps) = (0, Vec::new());
        for round in 0..ROUNDS {
            let mut processes = JoinSet::new();
            for number in 0..PROCESSES {
                let job =
                    Job { sleeps: true, ..Job::new(t, &format!("slept-{round}-{number}"), ttl) };
                let proxies = Proxies::start(Backend::ZooKeeper, &followers).await;
                let offset = TICK * number / PROCESSES;
                processes.spawn(sleep_and_lock(job, offset, proxies, watcher.clone()));
            }
            for (valid, overlap) in processes.join_all().await {
                held += u32::from(valid);
                overlaps.extend(Some(overlap).filter(|overlap| !overlap.is_zero()));
            }
        }
        assert!(
            overlaps.is_empty(),
            "guards were valid for {overlaps:?} after their nodes were deleted"
        );
        assert!(held * 2 > ROUNDS * PROCESSES, "only {held} guards were ever valid");
    })
    .await;
}

/// Returns whether the guard was ever valid, and for how long after its node was deleted.
async fn sleep_and_lock(
    job: Job,
    offset: Duration,
    proxies: Proxies,
    watcher: Client,
) -> (bool, Duration) {
    let mut process = Process::start(&proxies.url(), &job);
    process.idle().await;
    // The reply to a ping is under way when the process stops. With a packet to read it does not
    // notice, when it resumes, how long the server was silent. It pings at least every eighth of
    // the TTL.
    sleep(job.ttl / 5 + offset).await;
    proxies.set(&Mode::BlackholeToClient);
    sleep(job.ttl.mul_f64(0.11)).await;
    process.stop().await;
    proxies.set(&Mode::Pass);
    sleep(job.ttl + TICK / 2).await;
    let key = process.wake().await;
    proxies.set(&Mode::BlackholeToClient);
    let deleted = tokio::spawn(async move { deletion(&watcher, &key).await });
    let valid = process.last_valid().await;
    // Killing the process ends its session soon.
    drop(process);
    let deleted = deleted.await.expect("the task does not panic").expect("the leader replies");
    (valid > 0, Duration::from_micros(valid.saturating_sub(deleted)))
}
