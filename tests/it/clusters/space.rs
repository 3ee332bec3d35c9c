//! An etcd whose space is used up: it refuses every write but deletes.

use std::time::Duration;

use distlock::{Client, Error, LockGuard};
use distlock_testkit::docker::{self, container};
use etcd_client::{AlarmAction, AlarmOptions, AlarmType};
use tokio::task::JoinHandle;

use crate::common::case::{SOON, eventually, within};

/// A server of this test's own, with room for little. Removed when this is dropped, or by
/// `docker/down`.
struct Small {
    name: String,
    address: String,
}

async fn docker(arguments: &[&str]) -> String {
    docker::docker(arguments).await.unwrap_or_else(|error| panic!("{error}"))
}

impl Small {
    async fn start() -> Self {
        let (like, name) =
            (container("etcd1"), container(&format!("small-{:08x}", fastrand::u32(..))));
        let image = docker(&["inspect", "-f", "{{.Config.Image}}", &like]).await;
        let project = docker(&[
            "inspect",
            "-f",
            "{{index .Config.Labels \"com.docker.compose.project\"}}",
            &like,
        ])
        .await;
        let mut server = Self { name, address: String::new() };
        let variables = [
            "ETCD_DATA_DIR=/tmp/etcd",
            "ETCD_UNSAFE_NO_FSYNC=true",
            "ETCD_LISTEN_CLIENT_URLS=http://0.0.0.0:2379",
            "ETCD_ADVERTISE_CLIENT_URLS=http://127.0.0.1:2379",
            "ETCD_QUOTA_BACKEND_BYTES=4194304",
        ];
        let label = format!("com.docker.compose.project={project}");
        let mut arguments =
            vec!["run", "--detach", "--rm", "--name", &server.name, "--label", &label];
        arguments.extend(["--publish", "127.0.0.1::2379", "--entrypoint", "etcd"]);
        arguments.extend(variables.iter().flat_map(|variable| ["--env", variable]));
        arguments.push(&image);
        docker(&arguments).await;
        let address = docker(&["port", &server.name, "2379/tcp"]).await;
        server.address = address;
        server
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("docker")
            .args(["rm", "--force", "--volumes", &self.name])
            .output();
    }
}

/// A queue that was long: its tail is there, and its holder joined behind others.
struct Long {
    guard: LockGuard,
    next: JoinHandle<distlock::Result<LockGuard>>,
}

async fn long_queue(client: &Client, other: &Client) -> Long {
    let queue = async || client.mutex("long").queue().await.expect("an answer").len();
    let join = |client: &Client| {
        let mutex = client.mutex("long");
        tokio::spawn(async move { mutex.lock().await })
    };
    let first = client.mutex("long").lock().await.expect("free");
    let crowd: Vec<_> = (0..60).map(|_| join(client)).collect();
    eventually(SOON, "all wait", async || queue().await == 61).await;
    let holder = join(client);
    eventually(SOON, "the next holder waits", async || queue().await == 62).await;
    let next = join(other);
    eventually(SOON, "the one behind it waits", async || queue().await == 63).await;
    crowd.iter().for_each(JoinHandle::abort);
    eventually(SOON, "the others have gone", async || queue().await == 3).await;
    first.unlock().await.expect("released");
    let guard = within(SOON, "it is granted", holder).await.expect("no panic").expect("free");
    Long { guard, next }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_refuses_locks_and_takes_releases() {
    let server = Small::start().await;
    let mut raw =
        etcd_client::Client::connect([format!("http://{}", server.address)], None).await.unwrap();
    eventually(SOON * 2, "etcd serves", async || raw.kv_client().get("any", None).await.is_ok())
        .await;
    let url = format!("etcd://{}", server.address);
    let builder = || Client::builder(&url).session_ttl(Duration::from_secs(15));
    let (client, other) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
    let long = long_queue(&client, &other).await;
    let guard = client.mutex("a").lock().await.unwrap();
    let mutex = other.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    let reader = raw.clone();
    let queue = async || {
        reader
            .kv_client()
            .get("/distlock/a/", Some(etcd_client::GetOptions::new().with_prefix()))
            .await
    };
    eventually(SOON, "both are in the queue", async || queue().await.unwrap().kvs().len() == 2)
        .await;

    let mut stuffed = 0;
    while raw.put(format!("stuff-{stuffed}"), vec![0; 1 << 20], None).await.is_ok() {
        stuffed += 1;
        assert!(stuffed < 20, "etcd is never full");
    }
    let error = within(SOON, "it is refused", client.mutex("b").lock()).await.unwrap_err();
    assert!(matches!(error, Error::Backend { .. }), "{error:?}");
    assert!(!error.is_retryable());
    let told = std::error::Error::source(&error).expect("a reason").to_string();
    assert!(told.contains("space"), "{told}");
    assert!(guard.is_valid() && long.guard.is_valid());
    within(SOON, "it is released", long.guard.unlock()).await.expect("a delete needs no room");
    let next = within(SOON, "the waiter is granted", long.next).await.unwrap().unwrap();
    next.unlock().await.expect("a delete needs no room");
    guard.unlock().await.expect("a delete needs no room");
    let next = within(SOON, "the waiter is granted", waiter).await.unwrap().unwrap();
    next.unlock().await.expect("a delete needs no room");
    assert!(queue().await.unwrap().kvs().is_empty());

    // The operator makes room.
    for stuff in 0..stuffed {
        raw.delete(format!("stuff-{stuff}"), None).await.unwrap();
    }
    let revision = raw.get("any", None).await.unwrap().header().unwrap().revision();
    raw.compact(revision, Some(etcd_client::CompactionOptions::new().with_physical()))
        .await
        .unwrap();
    raw.defragment().await.unwrap();
    let member = raw.status().await.unwrap().header().unwrap().member_id();
    let mut options = AlarmOptions::new();
    options.with_member(member);
    raw.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(options)).await.unwrap();
    let guard = within(SOON, "there is room", client.mutex("b").lock()).await.unwrap();
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
    other.close().await.unwrap();
}
