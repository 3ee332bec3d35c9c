//! Records every change of the queues' keys in etcd's own order, for a [trace](crate::trace).
//!
//! The observer talks to the servers directly, and shares no code with the library. A watch on the
//! namespace misses no change: it is restarted after the last revision that it returned. It says
//! nothing about when a change happened. Linearizable reads, one after the other, bound that.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use distlock_testkit::{Result, clock::uptime};
use etcd_client::{Client, EventType, KeyValue, WatchOptions, WatchResponse};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    cluster::Cluster,
    event::{Event, Journal},
};

const TIME_LIMIT: Duration = Duration::from_secs(1);

/// The interval between two reads of the revision.
const INTERVAL: Duration = Duration::from_millis(50);

/// The pause after an error, since there are faults.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns the key that is written last.
fn last(namespace: &str) -> String {
    format!("{namespace}/observed")
}

/// Makes the last change, and waits until an observer has recorded it.
pub(crate) async fn end(
    cluster: &Cluster,
    namespace: &str,
    observing: JoinHandle<Result<()>>,
) -> Result<()> {
    cluster.etcd(&[0, 1, 2]).await?.put(last(namespace), "", None).await?;
    observing.await??;
    cluster.delete(&last(namespace)).await
}

/// Records what happens in a namespace.
pub(crate) struct Observer {
    cluster: Arc<Cluster>,
    journal: Journal,
    namespace: String,
}

impl Observer {
    pub(crate) fn new(cluster: Arc<Cluster>, journal: Journal, namespace: &str) -> Self {
        Self { cluster, journal, namespace: namespace.to_owned() }
    }

    /// Records from now on, until [`end`] is called. The namespace must be new.
    pub(crate) async fn observe(self) -> Result<()> {
        let first = self.probe(&mut self.cluster.etcd(&[0, 1, 2]).await?).await? + 1;
        tokio::select! {
            () = self.probe_forever() => {}
            () = self.watch_from(first) => {}
        }
        Ok(())
    }

    async fn probe_forever(&self) {
        loop {
            if let Ok(mut client) = self.cluster.etcd(&[0, 1, 2]).await {
                while self.probe(&mut client).await.is_ok() {
                    sleep(INTERVAL).await;
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Reads the store's revision.
    async fn probe(&self, client: &mut Client) -> Result<i64> {
        let since = uptime();
        let reply = timeout(TIME_LIMIT, client.get("distlock", None)).await??;
        let revision = reply.header().ok_or("no header")?.revision();
        self.journal.record(Event::Probed { since, revision: revision.unsigned_abs() });
        Ok(revision)
    }

    async fn watch_from(&self, first: i64) {
        let mut next = first;
        // An error is of no interest: the next watch starts where this one ended.
        while self.watch(&mut next).await.is_err() {
            sleep(PAUSE).await;
        }
    }

    /// Records all changes up to the last one.
    async fn watch(&self, next: &mut i64) -> Result<()> {
        let mut client = self.cluster.etcd(&[0, 1, 2]).await?;
        let options = WatchOptions::new().with_prefix().with_prev_key().with_start_revision(*next);
        let watching = client.watch(format!("{}/", self.namespace), Some(options));
        let mut watch = timeout(TIME_LIMIT, watching).await??;
        while let Some(message) = watch.message().await? {
            if message.canceled() {
                return Err(message.cancel_reason().into());
            }
            let ended = self.record(&message, next)?;
            for lease in ended {
                self.look_at(&client, lease);
            }
            let last = last(&self.namespace);
            let is_last = |kv: &KeyValue| kv.key() == last.as_bytes();
            if message.events().iter().any(|event| event.kv().is_some_and(is_last)) {
                return Ok(());
            }
        }
        Err("the watch has ended".into())
    }

    /// Records the changes of a message. Returns the leases of deleted keys.
    fn record(&self, message: &WatchResponse, next: &mut i64) -> Result<BTreeSet<i64>> {
        let mut ended = BTreeSet::new();
        for event in message.events() {
            let kv = event.kv().ok_or("an event without a key")?;
            let key = String::from_utf8_lossy(kv.key()).into_owned();
            let revision = kv.mod_revision().unsigned_abs();
            *next = kv.mod_revision() + 1;
            let before = event.prev_kv().map_or(0, KeyValue::lease);
            self.journal.record(match event.event_type() {
                EventType::Put => Event::KeyPut {
                    key,
                    revision,
                    created: kv.create_revision().unsigned_abs(),
                    lease: kv.lease(),
                    value: String::from_utf8_lossy(kv.value()).into_owned(),
                },
                EventType::Delete => {
                    ended.extend(Some(before).filter(|lease| *lease != 0));
                    Event::KeyGone { key, revision, lease: before }
                }
            });
        }
        Ok(ended)
    }

    /// Records whether a lease exists. A lease that exists has deleted no key.
    fn look_at(&self, client: &Client, lease: i64) {
        let (mut client, journal) = (client.lease_client(), self.journal.clone());
        tokio::spawn(async move {
            let since = uptime();
            let looked = timeout(TIME_LIMIT, client.time_to_live(lease, None)).await;
            if let Ok(Ok(reply)) = looked {
                journal.record(Event::LeaseSeen { lease, since, alive: reply.ttl() >= 0 });
            }
        });
    }
}
