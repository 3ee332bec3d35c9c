//! An operator who modifies the queues without knowing what the keys are for: he overwrites,
//! deletes and adds keys.
//!
//! He records deletions, since holders notice them only a moment later; see `checker::windows`. In
//! the end all keys that he added or detached from their sessions are deleted.

use std::time::Duration;

use distlock_testkit::{Result, clock::uptime, store::Store};
use etcd_client::{Client as Etcd, Compare, CompareOp, PutOptions, Txn, TxnOp};
use tokio::time::{Instant, sleep, timeout};
use zookeeper_client::{Acls, Client as ZooKeeper, CreateMode};

use crate::{
    cluster::Cluster,
    event::{Event, Journal},
};

const TIME_LIMIT: Duration = Duration::from_secs(1);

/// The value that he writes over keys.
const NOTE: &[u8] = b"a note of the operators";

/// Names that are no waiters', though some look like one.
const ODD: [&str; 6] = [
    "junk",
    "lock-",
    "lock-12",
    "x-lock-00000000zz",
    "_c_-lock-0000000001",
    "f00d-lock-0000000000",
];

/// Modifies the queues at random until `over`.
pub(crate) async fn meddle(cluster: &Cluster, journal: &Journal, namespace: &str, over: Instant) {
    let mut operator = Operator { cluster, journal, at_work: None, to_delete: Vec::new() };
    while Instant::now() < over {
        // Errors are ignored, since there are faults.
        let _ = operator.act(namespace).await;
        sleep(Duration::from_millis(fastrand::u64(1..60))).await;
    }
    while operator.go_home().await.is_err() {
        sleep(Duration::from_millis(50)).await;
    }
    for (key, since) in std::mem::take(&mut operator.to_delete) {
        operator.delete(key, since.min(uptime())).await;
    }
}

struct Operator<'a> {
    cluster: &'a Cluster,
    journal: &'a Journal,
    /// A key of etcd that exists while he may add keys. Unconfirmed additions may be applied
    /// seconds later. They fail once he has deleted this key.
    at_work: Option<String>,
    /// The keys that he has to delete in the end. Each has the time since which it may count as
    /// deleted, if that is unknown.
    to_delete: Vec<(String, u64)>,
}

impl Operator<'_> {
    async fn act(&mut self, namespace: &str) -> Result<()> {
        let keys = self.cluster.keys(namespace).await?;
        // On etcd the tail key is no entry of the queue. Other stores have only entries.
        let all = self.cluster.words().is_ok();
        let ours: Vec<_> = keys.into_iter().filter(|key| all || is_ours(key)).collect();
        let Some(key) = fastrand::choice(ours) else { return Ok(()) };
        if fastrand::u8(..8) == 0 {
            self.delete(key, uptime()).await;
            return Ok(());
        }
        let dir = key.rsplit_once('/').ok_or("no directory")?.0.to_owned();
        match self.cluster.store {
            Store::Etcd => self.act_on_etcd(self.cluster.etcd(&[0, 1, 2]).await?, key, &dir).await,
            Store::ZooKeeper => {
                self.act_on_zookeeper(&self.cluster.zookeeper().await?, &key, &dir).await
            }
            _ => self.act_by_words(&key, &dir).await,
        }
    }

    async fn act_by_words(&mut self, key: &str, dir: &str) -> Result<()> {
        let (words, note) = (self.cluster.words()?, String::from_utf8_lossy(NOTE));
        let statement = match fastrand::u8(..8) {
            0..3 => {
                let name = format!("{}-{:x}", odd(), fastrand::u32(..));
                self.to_delete.push((format!("{dir}/{name}"), uptime()));
                words.insert(dir, &name, &note)
            }
            _ => words.note(key, &note),
        };
        self.cluster.ask(&statement).await.map(drop)
    }

    async fn act_on_etcd(&mut self, mut client: Etcd, key: String, dir: &str) -> Result<()> {
        match fastrand::u8(..8) {
            0 => {
                // Without its lease it belongs to no client.
                let since = uptime();
                self.to_delete.push((key.clone(), since));
                self.add_to_etcd(client, key.as_str()).await?;
                self.journal.record(Event::KeyDeleted { key, since });
                // From now on the final deletion excuses nothing.
                self.to_delete.last_mut().ok_or("just added")?.1 = u64::MAX;
            }
            1 | 2 => {
                let odd = format!("{dir}/{}", odd());
                self.to_delete.push((odd.clone(), uptime()));
                self.add_to_etcd(client, odd).await?;
            }
            _ => {
                let options = PutOptions::new().with_ignore_lease();
                timeout(TIME_LIMIT, client.put(key, NOTE, Some(options))).await??;
            }
        }
        Ok(())
    }

    async fn add_to_etcd(&mut self, mut client: Etcd, key: impl Into<Vec<u8>>) -> Result<()> {
        let at_work = match &self.at_work {
            Some(at_work) => at_work,
            None => {
                // Useless unless confirmed. Then another one is used.
                let at_work = format!("/operator/{:x}", fastrand::u64(..));
                timeout(TIME_LIMIT, client.put(at_work.as_str(), NOTE, None)).await??;
                self.at_work.insert(at_work)
            }
        };
        let there = Compare::version(at_work.as_str(), CompareOp::Greater, 0);
        let add = Txn::new().when([there]).and_then([TxnOp::put(key, NOTE, None)]);
        if !timeout(TIME_LIMIT, client.txn(add)).await??.succeeded() {
            // Killed servers may have lost it.
            self.at_work = None;
            return Err("no key was added".into());
        }
        Ok(())
    }

    /// From here on no keys are added.
    async fn go_home(&self) -> Result<()> {
        let Some(at_work) = &self.at_work else { return Ok(()) };
        self.cluster.delete(at_work).await
    }

    async fn act_on_zookeeper(&mut self, client: &ZooKeeper, key: &str, dir: &str) -> Result<()> {
        match fastrand::u8(..8) {
            0 => drop(timeout(TIME_LIMIT, client.set_data(dir, NOTE, None)).await??),
            1 | 2 => {
                let odd = format!("{dir}/{}", odd());
                self.to_delete.push((odd.clone(), uptime()));
                let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                timeout(TIME_LIMIT, client.create(&odd, NOTE, &options)).await??;
            }
            // One or two writes.
            more => {
                for _ in 0..=more % 2 {
                    timeout(TIME_LIMIT, client.set_data(key, NOTE, None)).await??;
                }
            }
        }
        Ok(())
    }

    /// Deletes a key, and retries until that is confirmed: an unconfirmed delete might be applied
    /// later.
    async fn delete(&self, key: String, since: u64) {
        while self.cluster.delete(&key).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
        self.journal.record(Event::KeyDeleted { key, since });
    }
}

/// Draws the last names rarely: other libraries' waiters wait for such a node.
fn odd() -> &'static str {
    let draw = || fastrand::usize(..ODD.len());
    ODD[draw().min(draw()).min(draw())]
}

/// Returns `true` for an entry of distlock. The operator leaves other libraries' entries alone,
/// which would not notice, and his own keys.
fn is_ours(key: &str) -> bool {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    let is_tag = |tag: &str| {
        !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    name.starts_with('~')
        || !ODD.contains(&name)
            && name.rsplit_once("-lock-").is_some_and(|(head, number)| {
                number.len() == 10 && is_tag(head.split_once('-').map_or(head, |(tag, _)| tag))
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deletions are recorded, and added keys are deleted in the end.
    #[tokio::test]
    async fn operator_records_deletions_and_removes_its_keys() {
        let folder = std::env::temp_dir().join(format!("operator-{:x}", fastrand::u64(..)));
        std::fs::create_dir(&folder).expect("a folder");
        let journal = Journal::open(&folder, "test").expect("a journal");
        let cluster = Cluster::connect(Store::Sqlite).await.expect("a file");
        let builder = distlock::Client::builder(cluster.url()).namespace("/ns");
        let client = builder.connect().await.expect("connected");
        let guard = client.mutex("red").lock().await.expect("granted");
        let key = guard.key().to_owned();
        assert_eq!(cluster.places("/ns").await.unwrap(), [(key.clone(), token(&guard))]);
        let until_lost = async {
            while guard.is_valid() {
                meddle(&cluster, &journal, "/ns", Instant::now() + TIME_LIMIT / 10).await;
            }
        };
        timeout(TIME_LIMIT * 60, until_lost).await.expect("the key is deleted eventually");
        assert_eq!(cluster.keys("/ns").await.unwrap(), [""; 0]);
        let notes = cluster.ask("SELECT name FROM distlock_data").await.unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        let records = crate::event::read(&folder).expect("a history");
        let is_recorded = |record: &crate::event::Record| {
            let Event::KeyDeleted { key: deleted, .. } = &record.event else { return false };
            *deleted == key
        };
        assert!(records.iter().any(is_recorded), "{records:?}");
        guard.unlock().await.expect_err("the lock was lost");
        client.close().await.expect("closed");
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    fn token(guard: &distlock::LockGuard) -> u64 {
        guard.fencing_token().as_u64()
    }

    #[test]
    fn operator_ignores_foreign_entries() {
        assert!(is_ours("/ns/red/~694d9b-0f0e8a5e-8b8d-4a9e-9a3a-5d6c1b1f7a10.r"));
        assert!(is_ours("/ns/red/1f-lock-0000000007"));
        assert!(is_ours("/ns/red!rw/1f-r@7-lock-0000000007"));
        for strange in [
            "694d9b",
            "_c_0f0e8a5e-lock-0000000001",
            "lock-0000000001",
            "0f0e__lock__0000000001",
            "tail",
        ] {
            assert!(!is_ours(&format!("/ns/red/{strange}")), "{strange}");
        }
        assert!(ODD.iter().all(|odd| !is_ours(&format!("/ns/red/{odd}"))));
    }
}
