//! The harness of `memory://`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use distlock::{Client, FailoverBehavior, LockGuard, memory::Space};
use tokio::task::JoinHandle;

use super::{Cost, Elsewhere, Harness, Job, Link, Sessions};

pub(crate) struct Memory {
    name: String,
    space: Space,
}

#[async_trait]
impl Harness for Memory {
    async fn start() -> Self {
        let name = format!("t-{:016x}", fastrand::u64(..));
        Self { space: Space::named(&name), name }
    }

    fn is_shared() -> bool {
        false
    }

    fn url(&self) -> String {
        format!("memory://{}", self.name)
    }

    fn min_ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn promises(&self) -> (bool, FailoverBehavior) {
        (true, FailoverBehavior::MayLoseGrants)
    }

    async fn keys(&self, namespace: &str) -> Vec<String> {
        let all = self.space.keys();
        all.into_iter().filter(|key| key.starts_with(namespace)).collect()
    }

    async fn delete_key(&self, key: &str) {
        assert!(self.space.delete(key), "no key {key}");
    }

    async fn data(&self, key: &str) -> Option<Vec<u8>> {
        self.space.get(key)
    }

    async fn erase(&self, key: &str) {
        self.space.delete(key);
    }

    async fn cost(&self, _: &[i64]) -> Cost {
        let done = self.space.requests();
        Cost {
            requests: done.joins + done.reads + done.deletes,
            keepalives: done.keepalives,
            watches: 0,
            events: done.events.cast_signed(),
        }
    }

    async fn link(&self) -> Arc<dyn Link> {
        Arc::new(MemoryLink { url: self.url(), space: self.space.clone() })
    }

    async fn lock_elsewhere(&self, job: Job) -> Box<dyn Elsewhere> {
        let client = job.client(&self.url()).await;
        let mutex = client.mutex(&job.name);
        let before = self.keys(&job.namespace).await;
        let task =
            tokio::spawn(async move { mutex.lock().await.expect("the job's lock is granted") });
        loop {
            tokio::task::yield_now().await;
            let key = self.space.keys().into_iter().find(|key| !before.contains(key));
            if let Some(key) = key {
                return Box::new(Here {
                    space: self.space.clone(),
                    key,
                    task,
                    guard: None,
                    _client: client,
                });
            }
        }
    }
}

#[async_trait]
impl Sessions for Memory {
    async fn session_of(&self, key: &str) -> i64 {
        let ticket = key.rsplit('/').next().expect("a path");
        let (session, _) = ticket.split_once('-').expect("session and ticket");
        i64::from_str_radix(session, 16).expect("a number")
    }

    // The space only counts its sessions, so this is for cases with one client.
    async fn session_exists(&self, _: i64) -> bool {
        self.space.sessions() > 0
    }

    async fn end_session_of(&self, key: &str) {
        assert!(self.space.expire_session(key), "no key {key}");
    }
}

struct MemoryLink {
    url: String,
    space: Space,
}

impl Link for MemoryLink {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn cut_off_key(&self, key: &str) {
        assert!(self.space.disconnect_session(key), "no key {key}");
    }

    fn set_reachable(&self, reachable: bool) {
        self.space.set_reachable(reachable);
    }
}

/// The closest equivalent to a separate process: a client that is disconnected.
struct Here {
    space: Space,
    key: String,
    task: JoinHandle<LockGuard>,
    guard: Option<LockGuard>,
    _client: Client,
}

#[async_trait]
impl Elsewhere for Here {
    async fn granted(&mut self) -> u64 {
        let guard = (&mut self.task).await.expect("the job's lock is granted");
        self.guard.insert(guard).fencing_token().as_u64()
    }

    async fn crash(self: Box<Self>) -> Instant {
        assert!(self.space.disconnect_session(&self.key), "no key {}", self.key);
        self.task.abort();
        Instant::now()
    }
}
