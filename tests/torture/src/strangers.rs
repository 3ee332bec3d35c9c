//! Other libraries' waiters in the same queues as distlock: those of Curator, its predecessors and
//! kazoo on ZooKeeper, and of Go's client on etcd.
//!
//! The first stranger in the queue holds the lock. It records that afterwards, when it has verified
//! that its key existed all the time.

use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use distlock_testkit::{Result, clock::uptime, store::Store};
use etcd_client::{
    Client as Etcd, Compare, CompareOp, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use zookeeper_client::{Acls, Client as ZooKeeper, CreateMode, Error as ZkError};

use crate::{
    cluster::Cluster,
    event::{Event, Journal},
    manner::Manner,
    primitive::{Mode, strange_locks},
};

const TIME_LIMIT: Duration = Duration::from_secs(1);

/// The number of concurrent strangers.
const CROWD: u64 = 4;

/// The interval between reads without an event.
const INTERVAL: Duration = Duration::from_millis(100);

static CALLS: AtomicU64 = AtomicU64::new(0);

/// The namespace of the strangers, and when they stop.
#[derive(Clone)]
pub(crate) struct Strangers {
    pub(crate) journal: Journal,
    pub(crate) namespace: String,
    pub(crate) ttl: Duration,
    pub(crate) over: Instant,
}

/// A waiter's call, and its timeout.
struct Visit<'a> {
    journal: &'a Journal,
    call: u64,
    lock: String,
    gives_up: Instant,
}

impl Visit<'_> {
    fn waits(&self) -> bool {
        Instant::now() < self.gives_up
    }

    /// Records that it certainly held the lock from `at` until `until`.
    fn held(self, at: u64, until: u64, token: u64, key: String) {
        let Self { journal, call, lock, .. } = self;
        let mode = Mode::Exclusive;
        journal.record_at(at, Event::Granted { call, lock: lock.clone(), token, key, until, mode });
        journal.record_at(until, Event::Releasing { lock, token, limit: None });
    }
}

impl Strangers {
    /// Runs strangers that come and go.
    pub(crate) async fn mingle(&self, cluster: &Cluster) {
        // Errors are ignored, since there are faults. Leftovers end with their sessions.
        let _ = match cluster.store {
            Store::Etcd => self.mingle_on_etcd(cluster).await,
            Store::ZooKeeper => self.mingle_on_zookeeper(cluster).await,
            // Other libraries do not use the tables.
            _ => Ok(()),
        };
    }

    async fn mingle_on_etcd(&self, cluster: &Cluster) -> Result<()> {
        let mut crowd = JoinSet::new();
        for _ in 0..CROWD {
            let (client, one) = (cluster.etcd(&[0, 1, 2]).await?, self.clone());
            crowd.spawn(async move {
                while Instant::now() < one.over {
                    let _ = one.go(client.clone()).await;
                    sleep(Duration::from_millis(fastrand::u64(1..100))).await;
                }
            });
        }
        crowd.join_all().await;
        Ok(())
    }

    async fn mingle_on_zookeeper(&self, cluster: &Cluster) -> Result<()> {
        let servers: Vec<_> = cluster.servers.iter().map(ToString::to_string).collect();
        let connector = ZooKeeper::connector().with_session_timeout(self.ttl);
        let client = timeout(TIME_LIMIT * 3, connector.connect(&servers.join(","))).await??;
        let mut crowd = JoinSet::new();
        for _ in 0..CROWD {
            let (client, one) = (client.clone(), self.clone());
            crowd.spawn(async move {
                while Instant::now() < one.over && !client.state().is_terminated() {
                    let _ = one.curator(&client).await;
                    sleep(Duration::from_millis(fastrand::u64(1..100))).await;
                }
            });
        }
        crowd.join_all().await;
        Ok(())
    }

    fn visit(&self) -> Visit<'_> {
        let call = CALLS.fetch_add(1, SeqCst);
        let lock = fastrand::choice(strange_locks()).unwrap_or_default();
        let (wish, manner) = (call, Manner::Foreign);
        self.journal.record(Event::Called { call, wish, lock: lock.clone(), manner, limit: None });
        let longest = Duration::from_millis(if fastrand::bool() { 50 } else { 3000 });
        let gives_up = self.over.min(Instant::now() + longest.mul_f64(fastrand::f64()));
        Visit { journal: &self.journal, call, lock, gives_up }
    }

    /// Acts as Go's `concurrency.Mutex`: creates a key named after its lease, and waits until no
    /// key of the prefix is older.
    async fn go(&self, mut client: Etcd) -> Result<()> {
        let seconds = i64::try_from(self.ttl.as_secs() * 2)?;
        let lease = timeout(TIME_LIMIT, client.lease_grant(seconds, None)).await??.id();
        let outcome = as_go(&mut client, lease, self.visit(), &self.namespace).await;
        // Deletes the key as well.
        let _ = timeout(TIME_LIMIT, client.lease_revoke(lease)).await;
        outcome
    }

    /// Acts as Curator's `InterProcessMutex`, its predecessors and kazoo's `Lock`: creates a
    /// sequential node, and waits until the node before it is deleted.
    async fn curator(&self, client: &ZooKeeper) -> Result<()> {
        let visit = self.visit();
        let dir = format!("{}/{}", self.namespace, visit.lock);
        let id = fastrand::u128(..);
        let prefix = match fastrand::u8(..3) {
            0 => format!("{dir}/_c_{}-lock-", hyphenated(id)),
            1 => format!("{dir}/lock-"),
            _ => format!("{dir}/{id:032x}__lock__"),
        };
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (stat, sequence) =
            timeout(TIME_LIMIT, client.create(&prefix, b"a stranger's", &options)).await??;
        let key = format!("{prefix}{sequence}");
        let outcome = as_curator(client, &visit, &dir, &key).await;
        if let Ok(Some((at, until))) = outcome {
            let there = timeout(TIME_LIMIT, client.check_stat(&key)).await??;
            // The server may be behind the others, so the leader checks the node as well.
            let mut check = client.new_multi_writer();
            check.add_check_version(&key, -1)?;
            let confirmed = timeout(TIME_LIMIT, check.commit()).await?.is_ok();
            if confirmed && there.is_some_and(|there| there.czxid == stat.czxid) {
                visit.held(at, until, stat.czxid.unsigned_abs(), key.clone());
            }
        }
        loop {
            match timeout(TIME_LIMIT, leave(client, &key)).await {
                Ok(Ok(()) | Err(ZkError::NoNode)) => return Ok(()),
                // It is deleted with the session.
                Ok(Err(error)) if client.state().is_terminated() => return Err(error.into()),
                _ => sleep(INTERVAL).await,
            }
        }
    }
}

/// Returns how long a stranger needs the lock.
fn work() -> Duration {
    let longest = if fastrand::u8(..4) == 0 { 600 } else { 40 };
    Duration::from_millis(fastrand::u64(..longest))
}

async fn as_go(client: &mut Etcd, lease: i64, visit: Visit<'_>, namespace: &str) -> Result<()> {
    let prefix = format!("{namespace}/{}/", visit.lock);
    let key = format!("{prefix}{lease:x}");
    let absent = Compare::create_revision(key.as_str(), CompareOp::Equal, 0);
    let put = TxnOp::put(key.as_str(), "", Some(PutOptions::new().with_lease(lease)));
    let joined =
        timeout(TIME_LIMIT, client.txn(Txn::new().when([absent]).and_then([put]))).await??;
    let own = joined.header().ok_or("no header")?.revision();
    while visit.waits() {
        let older = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Descend)
            .with_max_create_revision(own - 1)
            .with_limit(1)
            .with_keys_only();
        let ahead = timeout(TIME_LIMIT, client.get(prefix.as_str(), Some(older))).await??;
        if ahead.kvs().is_empty() {
            let at = uptime();
            sleep(work()).await;
            let until = uptime();
            let there = timeout(TIME_LIMIT, client.get(key.as_str(), None)).await??;
            if there.kvs().first().is_some_and(|kv| kv.create_revision() == own) {
                visit.held(at, until, own.unsigned_abs(), key.clone());
            }
            break;
        }
        // Go waits for the deletion of the key ahead. Reading sooner makes no difference to others.
        sleep(INTERVAL / 10).await;
    }
    timeout(TIME_LIMIT, client.delete(key, None)).await??;
    Ok(())
}

/// Waits for its turn, and returns when it held the lock.
async fn as_curator(
    client: &ZooKeeper,
    visit: &Visit<'_>,
    dir: &str,
    key: &str,
) -> Result<Option<(u64, u64)>> {
    let own = number(key).ok_or("no number")?;
    while visit.waits() {
        // A stale list has at least as many entries ahead.
        let children = timeout(TIME_LIMIT, client.list_children(dir)).await??;
        let ahead =
            children.into_iter().filter(|child| number(child).is_some_and(|number| number < own));
        let Some(ahead) = ahead.max_by_key(|child| number(child)) else {
            let at = uptime();
            sleep(work()).await;
            return Ok(Some((at, uptime())));
        };
        let ahead = format!("{dir}/{ahead}");
        let (stat, changes) = timeout(TIME_LIMIT, client.check_and_watch_stat(&ahead)).await??;
        if stat.is_some() {
            // An ephemeral node that is no waiter may stay, and others ignore it.
            let _ = timeout(INTERVAL, changes.changed()).await;
        }
    }
    Ok(None)
}

/// Leaves the queue. Some leave as Curator's `Revoker` makes them: their node is written to and
/// deleted at once.
async fn leave(client: &ZooKeeper, key: &str) -> std::result::Result<(), ZkError> {
    match fastrand::u8(..3) {
        0 => {
            let mut both = client.new_multi_writer();
            both.add_set_data(key, b"__REVOKE__", None)?;
            both.add_delete(key, None)?;
            both.commit().await.map(drop).map_err(ZkError::from)
        }
        1 => {
            // Pipelined.
            let (written, deleted) =
                (client.set_data(key, b"__REVOKE__", None), client.delete(key, None));
            let _ = written.await;
            deleted.await
        }
        _ => client.delete(key, None).await,
    }
}

/// Returns the number of a waiter's node, or `None` for other nodes.
fn number(name: &str) -> Option<u32> {
    let (head, digits) = name.split_at_checked(name.len().checked_sub(10)?)?;
    let is_waiter = head.ends_with("lock-") || head.ends_with("__lock__");
    digits.parse().ok().filter(|_| is_waiter && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Formats a UUID.
fn hyphenated(id: u128) -> String {
    let hex = format!("{id:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_of_each_kind_have_a_number() {
        let uuid = hyphenated(0x0f0e_8a5e_8b8d_4a9e_9a3a_5d6c_1b1f_7a10);
        assert_eq!(uuid, "0f0e8a5e-8b8d-4a9e-9a3a-5d6c1b1f7a10");
        for waiter in [
            format!("_c_{uuid}-lock-"),
            "lock-".to_owned(),
            "0f0e__lock__".to_owned(),
            "1f-r@7-lock-".to_owned(),
        ] {
            assert_eq!(number(&format!("/ns/red/{waiter}0000000012")), Some(12), "{waiter}");
        }
        for junk in ["junk", "lock-12", "x-lock-00000000zz", "lock-+000000012"] {
            assert_eq!(number(junk), None, "{junk}");
        }
    }
}
