//! Eviction of a holder or a waiter by an operator.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Client;
use crate::{
    backend::{Entry, error::StoreError, name::Queue},
    error::{Error, Result},
    primitives::{queue_entry::QueueEntry, viewer::LockKind},
    queue::snapshot,
};

impl Client {
    /// Evicts the holder or waiter that has this key.
    ///
    /// Use this method only after an operator has verified that the holder or waiter is stuck. The
    /// call deletes the key, and returns `false` if the key does not exist. To ask a holder to
    /// release the lock instead, use [`Mutex::request_release`](crate::Mutex::request_release).
    ///
    /// **If this was the only holder, the next waiter is granted the lock at once, while the old
    /// holder may still be working.** The old holder is notified of the loss
    /// ([`Evicted`](crate::LostReason::Evicted)) when the store's event arrives, or about 0.4 s
    /// after its grant if the key is deleted before that. If the event is lost, the holder is
    /// notified within 1.25 times its [`recheck_interval`](crate::Builder::recheck_interval). On
    /// stores without events, such as MySQL, the holder is notified within a second. An evicted
    /// waiter fails with [`Error::Evicted`], in many cases only at its next recheck. If the waiter
    /// was being granted the lock, it may become a holder for a moment, and is then notified of the
    /// loss.
    ///
    /// [`LockGuard::key`](crate::LockGuard::key) and [`QueueEntry::key`](crate::QueueEntry::key)
    /// return the key of a holder or waiter. With a bridge on Redis, evicting the holder also
    /// deletes the key that other libraries use as the lock.
    ///
    /// On etcd, a client that acquires a lock again may use the same key. If the holder may have
    /// released the lock since you read the key, use [`evict_entry`](Self::evict_entry), which does
    /// not evict a later hold, except that of another library through a bridge.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] before any request is sent, if the key is not that of a holder or
    /// waiter in the client's namespace, for example if it is the key of a release request.
    /// [`Error::Unsupported`] on Redlock. [`Error::Unavailable`] if no server replies within about
    /// twice the [`request_timeout`](crate::Builder::request_timeout), or if a new session was
    /// needed and could not be opened. The key may have been deleted nevertheless.
    /// Other failures are reported as [`Error::Denied`], [`Error::Backend`],
    /// [`Error::SessionLost`], [`Error::Closed`] and [`Error::Runtime`]. On Redis, also
    /// [`Error::NotYet`] while version 1 clients have sessions.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the key may or may not have been deleted.
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::LostReason;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-evict").await?;
    /// let guard = client.mutex("stuck").lock().await?;
    /// assert!(client.evict(guard.key()).await?);
    /// assert_eq!(guard.lost().await, LostReason::Evicted);
    /// assert!(!client.evict(guard.key()).await?);
    /// # Ok(()) }
    /// ```
    pub async fn evict(&self, key: impl AsRef<str>) -> Result<bool> {
        self.evict_if(key.as_ref(), |_| true).await
    }

    /// Evicts the holder or waiter that this queue entry describes.
    ///
    /// Returns `false` if this entry has left the queue, even if the same client has acquired the
    /// lock again under the same key. Otherwise the call does what [`evict`](Self::evict) does.
    ///
    /// With a bridge on Redis, all locks of another library under one name have the same key and
    /// token. The call may therefore evict a later lock of that library.
    ///
    /// # Errors
    ///
    /// As [`evict`](Self::evict).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the key may or may not have been deleted.
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::LostReason;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-evict-entry").await?;
    /// let guard = client.mutex("stuck").lock().await?;
    /// let holder = client.mutex("stuck").holder().await?.expect("it is held");
    /// assert!(client.evict_entry(&holder).await?);
    /// assert_eq!(guard.lost().await, LostReason::Evicted);
    /// let guard = client.mutex("stuck").lock().await?;
    /// assert!(!client.evict_entry(&holder).await?);
    /// assert!(guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub async fn evict_entry(&self, entry: &QueueEntry) -> Result<bool> {
        self.evict_if(entry.key(), |there| there.revision == entry.revision()).await
    }

    /// Deletes a key in a queue if `meant` accepts the entry that has this key now.
    async fn evict_if(&self, key: &str, meant: impl Fn(&Entry) -> bool) -> Result<bool> {
        self.sessions.shared().must_queue("queues")?;
        let queue = queue_of(self.namespace(), key)
            .map_err(|reason| Error::invalid_value("key", key, reason))?;
        let snapshot = snapshot::look_now(&self.sessions, &queue).await?;
        let mut entries = snapshot.members.into_iter().map(|member| member.entry);
        let Some(entry) = entries.find(|entry| &*entry.key == key && meant(entry)) else {
            return Ok(false);
        };
        // An attempt whose reply was lost may have deleted the key.
        let doubtful = AtomicBool::new(false);
        let deleted = self.sessions.ask(|store| {
            let evicting = store.evict(&entry);
            async {
                let evicted = evicting.await;
                let in_doubt = evicted.as_ref().err().is_some_and(StoreError::leaves_doubt);
                doubtful.fetch_or(in_doubt, Ordering::Relaxed);
                evicted
            }
        });
        Ok(deleted.await? || doubtful.into_inner())
    }
}

/// Returns the queue of a key, which the key's form shows.
fn queue_of(namespace: &str, key: &str) -> Result<Queue, &'static str> {
    let inside = key.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('/'));
    let inside = inside.ok_or("the key is not in this client's namespace")?;
    let no_entry = "this is not the key of a holder or waiter: pass a key that `Mutex::queue` or \
                    `distlock queue` lists";
    let (dir, entry) = inside.split_once('/').ok_or(no_entry)?;
    if entry.is_empty() || entry.contains('/') {
        return Err(no_entry);
    }
    let name = Queue::name_in(dir).ok_or(no_entry)?;
    let queue = Queue::new(namespace, &name).map_err(|_| no_entry)?;
    let mut queues = LockKind::ALL.into_iter().flat_map(|kind| kind.queues(&queue));
    queues.find(|queue| queue.escaped() == dir).ok_or(no_entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_of_a_key_is_found() {
        for (key, dir) in [
            ("/ns/a/~1-2", "/ns/a"),
            ("/ns/a%2Fb!rw/x", "/ns/a%2Fb!rw"),
            ("/ns/a!permits/x", "/ns/a!permits"),
            ("/ns/a!gate/x", "/ns/a!gate"),
            ("/ns/a!election/x", "/ns/a!election"),
        ] {
            assert_eq!(queue_of("/ns", key).map(|queue| queue.dir().to_owned()), Ok(dir.into()));
        }
        for other in [
            "",
            "/",
            "/ns",
            "/ns/a",
            "/ns/a/",
            "/ns/a/b/c",
            "/nsa/b",
            "/other/a/b",
            "/ns/a b/c",
            "/ns/a!requests/x",
            "/ns/a!rw!requests/x",
            "/ns/!began/a",
        ] {
            assert!(queue_of("/ns", other).is_err(), "{other:?}");
        }
    }
}
