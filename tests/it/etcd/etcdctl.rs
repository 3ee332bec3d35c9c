//! `etcdctl`, which has Go's locks and elections, takes its turn in the queues.

use std::{process::Stdio, time::Duration};

use distlock_testkit::docker::container;
use tokio::process::{Child, Command};

use crate::common::{
    Case, Harness, SOON, Sessions, etcd::Etcd, eventually, own_cases, throughout, within,
};

/// Runs `etcdctl`, whose locks are those of Go's `clientv3/concurrency`: from the path, or else in
/// a server's container.
async fn etcdctl(t: &Case<Etcd>, arguments: &[&str]) -> Child {
    let on_path = Command::new("etcdctl").arg("version").output().await.is_ok();
    let mut command = if on_path {
        let mut command = Command::new("etcdctl");
        command.arg(t.store.url().replace("etcd://", "--endpoints="));
        command
    } else {
        let mut command = Command::new("docker");
        command.args(["exec", &container("etcd1"), "etcdctl"]);
        command
    };
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().expect("etcdctl or docker is installed")
}

/// Waits for the output of the command that `etcdctl lock` runs once the lock is granted.
async fn granted(child: Child) {
    let output = within(SOON, "etcdctl ends", child.wait_with_output()).await.expect("its output");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("etcdctl version"), "{output:?}");
}

own_cases! { Etcd, beside_others,
    etcdctl_waits_for_distlock,
    distlock_waits_for_etcdctl,
    etcdctl_is_seen_in_the_queue,
    etcdctl_takes_part_in_elections,
}

mod cases {
    use super::*;

    pub(super) async fn etcdctl_waits_for_distlock(t: &Case<Etcd>) {
        let client = t.client().await;
        let guard = client.mutex("shared").lock().await.unwrap();
        let name = format!("{}/shared", t.namespace);
        let mut child = etcdctl(t, &["lock", &name, "etcdctl", "version"]).await;
        t.queue_of(2).await;
        throughout(Duration::from_millis(500), "etcdctl waits", async || {
            child.try_wait().unwrap().is_none()
        })
        .await;
        assert!(guard.is_valid());
        guard.unlock().await.unwrap();
        granted(child).await;
    }

    pub(super) async fn distlock_waits_for_etcdctl(t: &Case<Etcd>) {
        let client = t.client().await;
        // It holds `shared` while it waits for `until`.
        let until = client.mutex("until").lock().await.unwrap();
        let [shared, other] = ["shared", "until"].map(|name| format!("{}/{name}", t.namespace));
        let child =
            etcdctl(t, &["lock", &shared, "etcdctl", "lock", &other, "etcdctl", "version"]).await;
        t.queue_of(3).await;
        assert!(client.mutex("shared").try_lock().await.unwrap().is_none());
        let waiter = t.enqueue(&client, "shared").await;
        waiter.waits_throughout(Duration::from_millis(500), "distlock waits").await;
        until.unlock().await.unwrap();
        granted(child).await;
        waiter.served().await;
    }

    pub(super) async fn etcdctl_is_seen_in_the_queue(t: &Case<Etcd>) {
        let client = t.client().await;
        let mutex = client.mutex("shared");
        let guard = mutex.lock().await.unwrap();
        let mut watch = mutex.watch_queue().unwrap();
        assert_eq!(watch.next().await.unwrap().len(), 1);
        let name = format!("{}/shared", t.namespace);
        let child = etcdctl(t, &["lock", &name, "etcdctl", "version"]).await;
        let queue = within(SOON, "etcdctl is seen", watch.next()).await.unwrap();
        let [holder, waiter] = &queue[..] else { panic!("{queue:?}") };
        assert!(holder.is_own() && holder.key() == guard.key() && holder.since().is_some());
        assert!(
            !waiter.is_own()
                && waiter.position() == 1
                && waiter.owner().is_empty()
                && waiter.since().is_none()
        );
        assert!(waiter.fencing_token() > guard.fencing_token());
        guard.unlock().await.unwrap();
        granted(child).await;
    }

    /// `etcdctl elect` is Go's `concurrency.Election`: it campaigns among candidates of the
    /// library, and each side sees the other's leader.
    pub(super) async fn etcdctl_takes_part_in_elections(t: &Case<Etcd>) {
        let client = t.client().await;
        let election = client.election("e");
        let leadership = election.campaign("ours").await.unwrap();
        let name = format!("{}/e!election", t.namespace);
        let mut candidate = etcdctl(t, &["elect", &name, "theirs"]).await;
        t.queue_of(2).await;
        let read =
            etcdctl(t, &["get", "--prefix", "--print-value-only", &format!("{name}/~")]).await;
        let read = within(SOON, "etcdctl reads", read.wait_with_output()).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), "ours");
        let mut leaders = election.observe().unwrap();
        assert_eq!(leaders.next().await.unwrap().value_str(), Some("ours"));
        leadership.resign().await.unwrap();
        let leader = within(SOON, "etcdctl leads", leaders.next()).await.unwrap();
        assert_eq!(leader.value_str(), Some("theirs"));
        let waiting = client.clone();
        let next =
            t.stands(async move { waiting.election("e").campaign("ours again").await }).await;
        next.waits_throughout(Duration::from_millis(300), "the second candidacy waits").await;
        // In a container, the end of `docker exec` would not reach etcdctl.
        t.store.end_session_of(leader.key()).await;
        let next = next.granted().await;
        assert_eq!(election.leader().await.unwrap().unwrap().fencing_token(), next.fencing_token());
        next.resign().await.unwrap();
        let _ = candidate.start_kill();
        eventually(SOON, "the queue is empty", async || t.keys().await.is_empty()).await;
    }
}
