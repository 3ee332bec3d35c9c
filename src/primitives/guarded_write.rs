//! Writes that the store applies only while the lock is held.

mod commit;

use std::{collections::HashSet, sync::Arc};

use crate::{
    backend,
    error::{Error, Result},
    primitives::guard::LockGuard,
};

use commit::commit;

/// How many writes fit into one transaction: etcd takes 128 operations by default, and ZooKeeper's
/// may need several for one write.
const MAX_WRITES: usize = 64;
/// The longest key, in bytes.
const MAX_KEY: usize = 1024;
/// The most that keys and values take together, in bytes: ZooKeeper hangs up on requests of 1 MiB
/// (`jute.maxbuffer`), and the rest is for what it needs around them.
const MAX_BYTES: usize = 1_000_000;

/// A write to the store's own data, for [`LockGuard::write`].
///
/// # Examples
///
/// ```
/// # use distlock::Write;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// # let client = distlock::Client::connect("memory://docs-write-type").await?;
/// # let guard = client.mutex("a").lock().await?;
/// guard.write(&[Write::put("/app/new", "value"), Write::delete("/app/old")]).await?;
/// # guard.unlock().await }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write(backend::Write);

impl Write {
    /// Creates the key, or writes over it. It belongs to no session: it stays when the lock is let
    /// go.
    #[must_use]
    pub fn put(key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Self(backend::Write::Put { key: key.into(), value: value.into() })
    }

    /// Deletes the key. If there is none, that is fine.
    #[must_use]
    pub fn delete(key: impl Into<String>) -> Self {
        Self(backend::Write::Delete { key: key.into() })
    }

    /// The key that it writes to.
    #[must_use]
    pub fn key(&self) -> &str {
        match &self.0 {
            backend::Write::Put { key, .. } | backend::Write::Delete { key } => key,
        }
    }

    fn bytes(&self) -> usize {
        self.key().len()
            + match &self.0 {
                backend::Write::Put { value, .. } => value.len(),
                backend::Write::Delete { .. } => 0,
            }
    }
}

impl LockGuard {
    /// Writes a value into the store, if the lock is held at that moment: [`write`](Self::write)
    /// with one [`Write::put`].
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::{Client, Error, memory::Space};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = Client::connect("memory://docs-put").await?;
    /// let guard = client.mutex("leader").lock().await?;
    /// guard.put("/app/leader", "worker-7").await?;
    ///
    /// let space = Space::named("docs-put");
    /// space.delete(guard.key());
    /// let error = guard.put("/app/leader", "worker-8").await.unwrap_err();
    /// assert!(matches!(error, Error::Lost { .. }));
    /// assert_eq!(space.get("/app/leader").as_deref(), Some(&b"worker-7"[..]));
    /// # Ok(()) }
    /// ```
    pub async fn put(&self, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Result<()> {
        self.write(&[Write::put(key, value)]).await
    }

    /// Reads a value from the store: what was written by [`put`](Self::put), or by anybody else.
    /// `None` if there is no such key.
    ///
    /// It is the newest value at a moment while the call lasts, and tells nothing of the lock: that
    /// may be lost at the next moment, as ever. A [`write`](Self::write) that follows from it is
    /// refused then. Keys are as in [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] before anything is sent, if there can be no such key.
    /// [`Error::Lost`] if the lock was lost, as far as this process knows. [`Error::Unavailable`]
    /// if the store does not answer within about twice the
    /// [`request_timeout`](crate::Builder::request_timeout).
    /// [`Error::Denied`] and [`Error::Backend`].
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-get").await?;
    /// let guard = client.mutex("counter").lock().await?;
    /// assert!(guard.get("/app/counter").await?.is_none());
    /// guard.put("/app/counter", "1").await?;
    /// assert_eq!(guard.get("/app/counter").await?.as_deref(), Some(&b"1"[..]));
    /// # guard.unlock().await }
    /// ```
    pub async fn get(&self, key: impl AsRef<str>) -> Result<Option<Vec<u8>>> {
        self.held.session.shared.must_queue("guarded writes")?;
        let key = key.as_ref();
        check(self.held.queue.namespace(), &[Write::delete(key)])?;
        self.read(key).await
    }

    /// The same, of any key.
    pub(super) async fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let session = &self.held.session;
        session.shared.must_queue("guarded writes")?;
        let lost = || self.lost_reason().map(|reason| self.lost_error(reason));
        if let Some(error) = lost() {
            return Err(error);
        }
        let asking = session.ask_briefly(|| session.store.read(key));
        let read = session.shared.runtime.within(async { Ok(asking.await) }).await;
        match lost() {
            Some(error) => Err(error),
            None => read?.map_err(|error| session.public(error)),
        }
    }

    /// Deletes a key from the store, if the lock is held at that moment: [`write`](Self::write)
    /// with one [`Write::delete`]. That there is no such key is fine.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-delete").await?;
    /// let guard = client.mutex("leader").lock().await?;
    /// guard.delete("/app/leader").await?;
    /// # guard.unlock().await }
    /// ```
    pub async fn delete(&self, key: impl Into<String>) -> Result<()> {
        self.write(&[Write::delete(key)]).await
    }

    /// Writes to the store's own data in one transaction: all of it, and only if this guard's key
    /// is there at that moment.
    ///
    /// It is the store that looks (a comparison in etcd's transaction, a check in ZooKeeper's), not
    /// this process's clock. So a holder that was paused and writes before it looks at its guard
    /// does no harm: whatever it sends is refused once its key is gone, which it is before the next
    /// holder is granted. It needs no fencing token. That is true of data in the same cluster; for
    /// others, see [`FencingGate`](crate::FencingGate).
    ///
    /// Keys are the store's own, and are read with the store's own client. They look like
    /// `/app/state`: absolute paths of up to 1,024 bytes, with no empty part, `.` or `..`, and no
    /// control characters, outside of the client's namespace and of `/zookeeper`. There may be 1 to
    /// 64 writes of different keys, of at most 1,000,000 bytes with their keys. On ZooKeeper, a put
    /// creates the nodes above its own that are missing, and a node with others below it cannot be
    /// deleted. On Redis they are fields of one hash for each namespace, so that clients of another
    /// namespace write to keys of their own.
    ///
    /// A [`ReadGuard`](crate::ReadGuard) can write as well, concurrently with other readers.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] before anything is sent. [`Error::Lost`] if the lock was lost, as
    /// this process knows or the store says: nothing was written. [`Error::WriteUnconfirmed`] if
    /// the store's answer was lost: it may or may not have been written, or may be yet, while the
    /// lock is held; it is not sent again. Look at the data, or write the same again.
    /// [`Error::Unavailable`] if no server took it within about twice the
    /// [`request_timeout`](crate::Builder::request_timeout): nothing was written, and the lock may
    /// still be held. [`Error::Denied`] and [`Error::Backend`]: nothing was written.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it may or may not have been written, or may be yet, while the lock
    /// is held. Dropped before its first poll, it has sent nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::{Write, memory::Space};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-write").await?;
    /// let guard = client.mutex("accounts").lock().await?;
    /// let (alice, bob) = (Write::put("/accounts/alice", "70"), Write::put("/accounts/bob", "30"));
    /// guard.write(&[alice, bob]).await?;
    ///
    /// let space = Space::named("docs-write");
    /// assert_eq!(space.get("/accounts/bob").as_deref(), Some(&b"30"[..]));
    /// # guard.unlock().await }
    /// ```
    pub async fn write(&self, writes: &[Write]) -> Result<()> {
        write(&[self], writes).await
    }

    /// Writes to any keys.
    pub(super) async fn commit(&self, writes: &[backend::Write]) -> Result<()> {
        commit(&[self], writes).await
    }
}

/// Writes to the store's own data outside of the namespace, if all of these locks are held.
pub(super) async fn write(guards: &[&LockGuard], writes: &[Write]) -> Result<()> {
    let Some(guard) = guards.first() else { return Ok(()) };
    guard.held.session.shared.must_queue("guarded writes")?;
    check(guard.held.queue.namespace(), writes)?;
    check_guards(guards, writes)?;
    let writes: Vec<_> = writes.iter().map(|write| write.0.clone()).collect();
    commit(guards, &writes).await
}

/// Returns `true` if one transaction can have all of these keys as its condition.
fn check_guards(guards: &[&LockGuard], writes: &[Write]) -> Result<()> {
    let Some((first, rest)) = guards.split_first() else { return Ok(()) };
    let keys: usize = guards.iter().map(|guard| guard.key().len()).sum();
    let bytes = keys + writes.iter().map(Write::bytes).sum::<usize>();
    let reason = if guards.len() > MAX_WRITES {
        "at most 64 locks can be the condition of one write"
    } else if !rest.is_empty() && bytes > MAX_BYTES {
        "a write and the keys of its locks have at most 1,000,000 bytes together"
    } else if rest.iter().any(|guard| !Arc::ptr_eq(&first.held.session, &guard.held.session)) {
        let backend = first.held.session.shared.backend.kind();
        let operation = "guarded writes under locks of several sessions";
        return Err(Error::Unsupported { backend, operation });
    } else {
        return Ok(());
    };
    Err(Error::invalid_value("key", writes.first().map_or("", Write::key), reason))
}

fn check(namespace: &str, writes: &[Write]) -> Result<()> {
    let invalid = |key: &str, reason: &str| Err(Error::invalid_value("key", key, reason));
    let mut keys = HashSet::new();
    let Some(first) = writes.first() else {
        return invalid("", "there is nothing to write: pass at least one");
    };
    if writes.len() > MAX_WRITES {
        return invalid(first.key(), "at most 64 writes fit into one transaction");
    }
    for write in writes {
        let key = write.key();
        let path = key.strip_prefix('/');
        let mut parts = path.unwrap_or_default().split('/');
        let inside = key.strip_prefix(namespace);
        let wrong = if key.len() > MAX_KEY {
            "a key has at most 1,024 bytes"
        } else if path.is_none() {
            "a key starts with `/`, as in `/app/state`"
        } else if parts.clone().any(|part| matches!(part, "" | "." | "..")) {
            "a key is `/`-separated parts, none of them empty, `.` or `..`, as in `/app/state`"
        } else if key.chars().any(is_refused) {
            "a key has no control characters, none for private use, and none beyond U+FFEF"
        } else if parts.next() == Some("zookeeper") {
            "`/zookeeper` belongs to ZooKeeper itself; choose another"
        } else if inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            "this client's locks live there; choose a key outside of its namespace"
        } else if !keys.insert(key) {
            "a key is written once in a transaction"
        } else if write.bytes() > MAX_BYTES {
            "a key and its value have at most 1,000,000 bytes"
        } else {
            continue;
        };
        return invalid(key, wrong);
    }
    if writes.iter().map(Write::bytes).sum::<usize>() > MAX_BYTES {
        return invalid(
            first.key(),
            "all keys and values of a transaction have at most 1,000,000 bytes together",
        );
    }
    Ok(())
}

/// By ZooKeeper's rules. To Java, characters beyond the first 65,536 are two surrogates each, which
/// ZooKeeper refuses.
fn is_refused(c: char) -> bool {
    c.is_control() || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests;
