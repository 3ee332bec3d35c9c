//! Writes that the store applies only while the lock is held.

mod commit;

use std::{collections::HashSet, sync::Arc};

use crate::{
    backend,
    error::{Error, Result},
    primitives::guard::LockGuard,
};

use commit::{check_held, commit};

/// The maximum number of writes in one transaction. etcd accepts 128 operations by default, and
/// ZooKeeper may need several for one write.
const MAX_WRITES: usize = 64;
/// The longest key, in bytes.
const MAX_KEY: usize = 1024;
/// The maximum size of keys and values together, in bytes. ZooKeeper closes the connection on
/// requests of 1 MiB (`jute.maxbuffer`). The rest is for the overhead of a request.
const MAX_BYTES: usize = 1_000_000;

/// Describes a write to a key of the store, for [`LockGuard::write`].
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
    /// Creates a key, or overwrites it.
    ///
    /// The key belongs to no session, so it remains when the lock is released.
    #[must_use]
    pub fn put(key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Self(backend::Write::Put { key: key.into(), value: value.into() })
    }

    /// Deletes a key.
    ///
    /// It is not an error if the key does not exist.
    #[must_use]
    pub fn delete(key: impl Into<String>) -> Self {
        Self(backend::Write::Delete { key: key.into() })
    }

    /// Returns the key that the write changes.
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
    /// Writes a value into the store if the lock is still held.
    ///
    /// This is [`write`](Self::write) with one [`Write::put`].
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

    /// Reads a value from the store; `None` if there is no such key.
    ///
    /// The value was the newest one at some moment during the call. If the lock is lost after that,
    /// [`write`](Self::write) refuses a change that is based on the value. The same keys are valid
    /// as in [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the key is invalid, and [`Error::Unsupported`] on Redlock,
    /// both before anything is sent. [`Error::Lost`] if this process knows that the lock was lost.
    /// [`Error::Unavailable`] if the store does not reply within about twice the
    /// [`request_timeout`](crate::Builder::request_timeout). [`Error::Denied`], [`Error::Backend`]
    /// and [`Error::Runtime`].
    ///
    /// # Cancel safety
    ///
    /// Safe: the call only reads.
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

    /// Reads the value of any key, also inside the namespace.
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

    /// Deletes a key from the store if the lock is still held.
    ///
    /// This is [`write`](Self::write) with one [`Write::delete`]. It is not an error if the key
    /// does not exist.
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

    /// Writes to the store in one transaction if the lock is still held.
    ///
    /// The store applies all of the writes or none, and none if this guard's key no longer exists.
    /// The key is deleted before the next holder is granted the lock, so a late write of a holder
    /// that was paused does no harm. No fencing token is needed for data in the same store. For
    /// other data, see [`FencingGate`](crate::FencingGate).
    ///
    /// A key is an absolute path such as `/app/state`, of up to 1,024 bytes. No part of a key may
    /// be empty, `.` or `..`. A key must not contain control characters, private-use characters, or
    /// characters above U+FFEF. The key must be outside of the client's namespace and of
    /// `/zookeeper`. One call makes 1 to 64 writes to different keys, of at most 1,000,000 bytes in
    /// total, keys included.
    ///
    /// The keys can also be read without distlock. On etcd and ZooKeeper, they are the store's own
    /// keys. On ZooKeeper, a put first creates missing parent nodes, outside of the transaction,
    /// and a node with children cannot be deleted. On PostgreSQL, MySQL, MariaDB and SQLite, the
    /// keys are rows of one of distlock's tables. On Redis, the keys are fields of one hash per
    /// namespace, so clients of another namespace write to other keys.
    ///
    /// A [`ReadGuard`](crate::ReadGuard) can write as well, concurrently with other readers.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if an argument is invalid, and [`Error::Unsupported`] on Redlock,
    /// both before anything is sent. [`Error::Lost`] if this process knows, or the store reports,
    /// that the lock was lost: nothing was written. [`Error::Unavailable`] if no server accepted
    /// the request within about twice the [`request_timeout`](crate::Builder::request_timeout):
    /// nothing was written, and the lock may still be held. [`Error::Denied`] and
    /// [`Error::Backend`]: nothing was written.
    ///
    /// [`Error::WriteUnconfirmed`] if the store's reply was lost, for example because the session
    /// or the client's runtime ended during the call. The write may have been applied, or may still
    /// be applied while the lock is held. The client does not send the write again. Read the data
    /// before you write it again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the write may have been applied, or may still be applied while the
    /// lock is held. A future that is dropped before its first poll has sent nothing.
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

    /// Writes to any keys, also inside the namespace.
    pub(super) async fn commit(&self, writes: &[backend::Write]) -> Result<()> {
        commit(&[self], writes).await
    }
}

/// Writes to the store outside of the namespace, if all of these locks are held.
pub(super) async fn write(guards: &[&LockGuard], writes: &[Write]) -> Result<()> {
    let Some(guard) = guards.first() else { return Ok(()) };
    guard.held.session.shared.must_queue("guarded writes")?;
    check(guard.held.queue.namespace(), writes)?;
    // After a loss, the locks may also belong to several sessions. The loss matters more.
    check_held(guards)?;
    check_guards(guards, writes)?;
    let writes: Vec<_> = writes.iter().map(|write| write.0.clone()).collect();
    commit(guards, &writes).await
}

/// Checks that one transaction can depend on all of these keys.
fn check_guards(guards: &[&LockGuard], writes: &[Write]) -> Result<()> {
    let Some((first, rest)) = guards.split_first() else { return Ok(()) };
    let keys: usize = guards.iter().map(|guard| guard.key().len()).sum();
    let bytes = keys + writes.iter().map(Write::bytes).sum::<usize>();
    let reason = if guards.len() > MAX_WRITES {
        "a write can depend on at most 64 locks"
    } else if !rest.is_empty() && bytes > MAX_BYTES {
        "the writes and the keys of the locks must be at most 1,000,000 bytes in total"
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
        return Err(Error::invalid("writes", "pass at least one write"));
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
            "a key must be at most 1,024 bytes long"
        } else if path.is_none() {
            "a key must start with `/`, as in `/app/state`"
        } else if parts.clone().any(|part| matches!(part, "" | "." | "..")) {
            "no part of a key may be empty, `.` or `..`"
        } else if key.chars().any(is_refused) {
            "a key must not contain control characters, private-use characters, or characters \
             above U+FFEF"
        } else if parts.next() == Some("zookeeper") {
            "`/zookeeper` is reserved for ZooKeeper; choose another key"
        } else if inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            "the client's locks are stored there; choose a key outside of its namespace"
        } else if !keys.insert(key) {
            "a transaction can write each key only once"
        } else if write.bytes() > MAX_BYTES {
            "a key and its value must be at most 1,000,000 bytes in total"
        } else {
            continue;
        };
        return invalid(key, wrong);
    }
    if writes.iter().map(Write::bytes).sum::<usize>() > MAX_BYTES {
        return invalid(
            first.key(),
            "the keys and values of a transaction must be at most 1,000,000 bytes in total",
        );
    }
    Ok(())
}

/// Returns `true` if ZooKeeper refuses the character. To Java, a character beyond the first 65,536
/// is two surrogates, which ZooKeeper refuses.
fn is_refused(c: char) -> bool {
    c.is_control() || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests;
