//! All locks of a namespace.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::{
    backend::name::Queue,
    error::{Error, Result},
    primitives::{
        queue_entry::QueueEntry,
        viewer::{LockKind, Viewer},
    },
    session::Sessions,
};

/// How many queues are read at the same time.
const AT_ONCE: usize = 16;

/// Describes a lock that has a holder or a waiter.
///
/// Returned by [`Client::locks`](crate::Client::locks).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    name: String,
    kind: LockKind,
    entries: Vec<QueueEntry>,
}

impl LockInfo {
    /// Returns the lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kind of lock.
    #[must_use]
    pub fn kind(&self) -> LockKind {
        self.kind
    }

    /// Returns the holders, in queue order.
    #[must_use]
    pub fn holders(&self) -> &[QueueEntry] {
        &self.entries[..self.entries.iter().take_while(|entry| entry.is_holder()).count()]
    }

    /// Returns the waiters, in queue order.
    #[must_use]
    pub fn waiters(&self) -> &[QueueEntry] {
        &self.entries[self.holders().len()..]
    }
}

/// Returns the locks of a client's namespace that have a holder or a waiter, sorted by name.
pub(crate) async fn list(sessions: &Sessions) -> Result<Vec<LockInfo>> {
    sessions.shared().must_queue("listing locks")?;
    let namespace = &sessions.shared().namespace;
    let dirs = sessions.ask(|store| store.queues(namespace)).await?;
    let found: BTreeSet<_> = dirs.iter().filter_map(|dir| parse(namespace, dir)).collect();
    let looks = found.into_iter().map(|(name, kind)| async move {
        let queue = Queue::new(namespace, &name)?;
        let viewer = Viewer::new(sessions.clone(), kind, &queue);
        Ok::<_, Error>(LockInfo { name, kind, entries: viewer.look().await? })
    });
    let locks: Vec<LockInfo> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
    // A directory outlives its last entry for a while.
    Ok(locks.into_iter().filter(|lock| !lock.entries.is_empty()).collect())
}

/// Returns the lock that a queue belongs to. `None` if the queue is not distlock's, or if no client
/// waits for a lock in it.
fn parse(namespace: &str, dir: &str) -> Option<(String, LockKind)> {
    let name = Queue::name_in(dir)?;
    let queue = Queue::new(namespace, &name).ok()?;
    let path = format!("{namespace}/{dir}");
    let is_of = |kind: &LockKind| kind.queues(&queue).iter().any(|queue| queue.dir() == path);
    let kind = LockKind::ALL.into_iter().find(is_of)?;
    Some((name, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_names_its_lock() {
        for (dir, lock) in [
            ("a", Some(("a", LockKind::Mutex))),
            ("a%2Fb", Some(("a/b", LockKind::Mutex))),
            ("a%20b!rw", Some(("a b", LockKind::RwLock))),
            ("a!gate", Some(("a", LockKind::Semaphore))),
            ("a!permits", Some(("a", LockKind::Semaphore))),
            ("a!election", Some(("a", LockKind::Election))),
            // Release requests, notes of periods, and keys of other programs.
            ("a!requests", None),
            ("a!began", None),
            ("!began", None),
            ("a b", None),
            ("", None),
            ("%ff", None),
        ] {
            let parsed = parse("/ns", dir);
            assert_eq!(parsed.as_ref().map(|(name, kind)| (&**name, *kind)), lock, "{dir}");
        }
    }
}
