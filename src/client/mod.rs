//! The client, which a program creates once and acquires its locks from.

pub(crate) mod builder;
mod evict;
mod health;
mod multi_lock;
mod options;
mod url;

use std::{env::VarError, sync::Arc, time::Duration};

use crate::{
    error::{Error, Result},
    primitives::{
        election::Election,
        holders::Holders,
        lock_info::{self, LockInfo},
        mutex::Mutex,
        named::Named,
        rwlock::RwLock,
        semaphore::Semaphore,
        viewer::LockKind,
    },
    runtime::clock::timeout,
    session::{Sessions, Shared},
    store_kind::StoreKind,
};

pub use builder::Builder;
pub use health::Health;
pub use multi_lock::MultiLock;

/// The variable that [`Client::from_env`] reads.
const URL_VARIABLE: &str = "DISTLOCK_URL";

/// Connects to a store, and keeps alive the session that its locks belong to.
///
/// A client is cheap to clone, and all clones are the same client.
///
/// A client uses one session for all locks that it holds or waits for. On ZooKeeper, a client opens
/// another session for every 512 KiB of its own keys, and for every 120 KiB of watched keys.
///
/// By default, a client runs on a small runtime that belongs to the library. Keepalives therefore
/// continue while the program's runtime is blocked, and after it has ended. When a session is lost,
/// its guards are notified. The next call that acquires a lock opens a new session.
///
/// The session ends in the background once all clones are dropped, and everything that was created
/// with them: locks such as a [`Mutex`], guards, handles, streams and waiting calls. A stored
/// [release request](Mutex::request_release) also keeps the session open. [`close`](Self::close)
/// ends the session at once and returns the outcome.
#[derive(Clone, Debug)]
pub struct Client {
    sessions: Sessions,
    holders: Arc<Holders>,
}

impl Client {
    /// Connects with the default options: [`Client::builder`]`(url).connect()`.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped, a session that was being opened ends after its TTL.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-connect").await?;
    /// # client.close().await }
    /// ```
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        // The URL may contain a password: this future keeps no part of it while it waits.
        let builder = Self::builder(url);
        builder.connect().await
    }

    /// Returns a builder for a client of the store that the URL names.
    ///
    /// | URL | Store |
    /// |---|---|
    /// | `etcd://host:2379` | etcd |
    /// | `zk://host:2181` | ZooKeeper |
    /// | `postgres://host:5432/database` | PostgreSQL |
    /// | `mysql://host:3306/database` | MySQL or MariaDB |
    /// | `redis://host:6379/0` | Redis or Valkey: a server with its replicas, or a cluster |
    /// | `redis+sentinel://s1,s2,s3/service` | Redis or Valkey: the primary of that service |
    /// | `redlock://h1,h2,h3` | an odd number (3 or more) of independent Redis or Valkey servers |
    /// | `sqlite:///path/to/a/file` | a file, for the processes on one host |
    /// | `memory://name` | a store within this process |
    ///
    /// Commas separate the hosts of one store. For a Redis cluster, it is enough to name a few
    /// servers. The schemes `etcds`, `zks`, `rediss`, `rediss+sentinel` and `redlocks` connect over
    /// TLS. `zookeeper` and `postgresql` are other names for `zk` and `postgres`.
    /// `sqlite://relative/path` is relative to the working directory. Redlock provides only
    /// mutexes.
    ///
    /// A URL can also contain options and, for a store that has servers, a user, a password and a
    /// namespace: `etcds://user:password@h1,h2/namespace?session_ttl=15s&request_timeout=2s`. The
    /// user and the password are percent-escaped. On PostgreSQL, MySQL and Redis, the namespace
    /// follows the database in the path. With sentinels, it follows the service name. The builder's
    /// methods take precedence over the URL.
    ///
    /// # Options of a URL
    ///
    /// Unknown options are refused.
    ///
    /// - **Every store**: `session_ttl`, `owner`, `connect_timeout`, `request_timeout` and
    ///   `recheck_interval`.
    /// - **Passwords**: `password_file`, for a URL that contains `user@`, and
    ///   `allow_plaintext_credentials`. A user without a password is written `user:@`, and on
    ///   PostgreSQL and MySQL also `user@`.
    /// - **TLS**: `ca_file`, `cert_file`, `key_file` and, except on ZooKeeper, `server_name`.
    ///   Without `ca_file`, the client uses the operating system's CAs. On PostgreSQL and MySQL,
    ///   `sslmode=verify-full` turns TLS on, and `sslmode=require` has the same effect. On
    ///   PostgreSQL, `sslrootcert=system` also turns it on.
    /// - **PostgreSQL**: URLs for libpq work if they name the hosts once, contain no unknown option
    ///   and no other `sslmode` than `disable` (the default), `require` and `verify-full`, and send
    ///   no password to another host without TLS. For a Unix socket, give its directory: in the
    ///   option `host`, or percent-escaped in place of the host. `pooler=transaction` connects
    ///   through a pooler in transaction mode.
    /// - **ZooKeeper**: `sasl` and `acl`.
    /// - **Redis**: `replicas`, the number of replicas (1 to 32) that must confirm the writes on
    ///   which locks depend, and `allow_eviction`. With sentinels, `db` is the number of the
    ///   database.
    /// - **Redis with a bridge**: `bridge=plain` or `bridge=redisson`, and `bridge_prefix`. The
    ///   client provides only mutexes, which also exclude other libraries' locks on the same keys.
    /// - **Redlock**: `longest_ttl`, the longest TTL of any client of these nodes. Default 60 s.
    /// - **SQLite**: `namespace`, because the URL's path names the file.
    pub fn builder(url: impl AsRef<str>) -> Builder {
        Builder::new(url.as_ref())
    }

    /// Connects to the store whose URL is in the environment variable `DISTLOCK_URL`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the variable is not set or is
    /// not valid UTF-8. Otherwise as [`Builder::connect`].
    ///
    /// # Cancel safety
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// // DISTLOCK_URL=memory://docs, or etcd://h1:2379,h2:2379/prod/locks?session_ttl=15s
    /// match distlock::Client::from_env().await {
    ///     Ok(client) => println!("the locks are in {}", client.backend()),
    ///     Err(error) => eprintln!("{error}"),
    /// }
    /// # }
    /// ```
    pub async fn from_env() -> Result<Self> {
        let url = std::env::var(URL_VARIABLE).map_err(|error| match error {
            VarError::NotPresent => {
                "the variable is not set: set it to the store's URL, such as etcd://host:2379"
            }
            VarError::NotUnicode(_) => "the variable's value is not UTF-8",
        });
        let url = url.map_err(|reason| Error::invalid(URL_VARIABLE, reason))?;
        Self::connect(url).await
    }

    pub(crate) async fn open(shared: Shared) -> Result<Self> {
        let sessions = Sessions::open(shared).await?;
        Ok(Self { sessions, holders: Arc::default() })
    }

    pub(crate) fn lazy(shared: Shared) -> Self {
        Self { sessions: Sessions::lazy(shared), holders: Arc::default() }
    }

    /// Returns the mutex of this name, without I/O.
    ///
    /// The name can be any non-empty string of at most 255 bytes after percent-escaping. A `/` is
    /// escaped, too, so names are not nested. With a bridge, `bridge_prefix` followed by the name
    /// must not begin with `{distlock:` or `{distlock}:`. The name is checked when the mutex is
    /// first used.
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex {
            named: Named::new(&self.sessions, LockKind::Mutex, name),
            holders: Arc::clone(&self.holders),
        }
    }

    /// Returns the read-write lock of this name, without I/O.
    ///
    /// The lock is independent of a mutex of the same name. The name is checked when the lock is
    /// first used.
    #[must_use]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock { named: Named::new(&self.sessions, LockKind::RwLock, name) }
    }

    /// Returns the semaphore of this name, without I/O.
    ///
    /// `permits` is the number of permits for all clients together. All clients should pass the
    /// same number. While the numbers differ, the smallest number that a holder or the first waiter
    /// has passed applies. See [`Semaphore`] for how to change the number. The name is checked when
    /// the semaphore is first used, and the number when permits are first acquired or set.
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore { named: Named::new(&self.sessions, LockKind::Semaphore, name), permits }
    }

    /// Returns the election of this name, without I/O.
    ///
    /// The election is independent of a mutex of the same name. The name is checked when the
    /// election is first used.
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election { named: Named::new(&self.sessions, LockKind::Election, name) }
    }

    /// Returns all locks of the namespace that have holders or waiters, sorted by name.
    ///
    /// The list contains the mutexes, read-write locks, semaphores and elections of all clients.
    /// With a bridge on Redis, a lock that only another library holds is missing. One request
    /// returns the names. On ZooKeeper this takes two requests, and on Redis one for every 200
    /// names. On etcd, the request returns all keys below the namespace. The client then reads each
    /// queue as [`Mutex::queue`] does. Together, the reads are not a consistent snapshot.
    ///
    /// # Errors
    ///
    /// As [`Mutex::queue`], except for errors about the name.
    ///
    /// # Cancel safety
    ///
    /// Safe: the call only reads.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-locks").await?;
    /// let guard = client.mutex("report").lock().await?;
    /// for lock in client.locks().await? {
    ///     let holders: Vec<_> = lock.holders().iter().map(|holder| holder.owner()).collect();
    ///     println!("{} {}: {holders:?}, {} wait", lock.kind(), lock.name(), lock.waiters().len());
    /// }
    /// # guard.unlock().await }
    /// ```
    pub async fn locks(&self) -> Result<Vec<LockInfo>> {
        lock_info::list(&self.sessions).await
    }

    /// Returns the TTL that the server has granted to the session.
    ///
    /// This TTL determines how long a crashed holder keeps its lock. The granted TTL may
    /// differ from the TTL that the builder requested:
    ///
    /// - etcd grants whole seconds, and at least one and a half election timeouts.
    /// - ZooKeeper grants between 2 and 20 ticks, unless it is configured differently.
    /// - PostgreSQL, MySQL, Redis, Redlock and SQLite grant at least one second.
    ///
    /// Before the first session is open, the method returns the requested TTL.
    #[must_use]
    pub fn session_ttl(&self) -> Duration {
        self.sessions.timing().ttl
    }

    /// Returns the time that a held lock has left just before its next renewal.
    ///
    /// While all renewals succeed, a held lock has at least this much time left, less the round
    /// trip of a renewal. Within this time, the program `distlock` must terminate its command.
    #[doc(hidden)]
    #[must_use]
    pub fn deadline_reserve(&self) -> Duration {
        self.sessions.timing().reserve()
    }

    /// Returns the kind of store that contains the locks.
    #[must_use]
    pub fn backend(&self) -> StoreKind {
        self.sessions.shared().backend.kind()
    }

    /// Returns the text that identifies the client to operators: see [`Builder::owner`].
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.sessions.shared().owner
    }

    /// Returns the path of the locks in the store: see [`Builder::namespace`].
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.sessions.shared().namespace
    }

    /// Returns `true` if this client or a clone was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sessions.is_closed()
    }

    /// Waits for holders to release their locks, and closes the client.
    ///
    /// Call this method when a service receives SIGTERM. From then on, the client acquires no more
    /// locks: waiters and later attempts to acquire a lock fail with
    /// [`Error::Closed`](crate::Error::Closed). A [`ReentrantMutex`](crate::ReentrantMutex) can
    /// still share a hold of its id. Holders are notified by
    /// [`release_requested`](crate::LockGuard::release_requested), and keep their locks until they
    /// release them or `grace` has passed. Within `grace`, the call also waits for the results of
    /// these releases. After that, the client is [closed](Self::close), and the remaining guards
    /// are lost.
    ///
    /// # Errors
    ///
    /// As [`close`](Self::close).
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, the client acquires no more locks. If the future is dropped
    /// before the client is closed, holders keep their locks.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-shutdown").await?;
    /// let guard = client.mutex("batch").lock().await?;
    /// let work = tokio::spawn(async move {
    ///     let request = guard.release_requested().await;
    ///     println!("to be stopped: {}", request.reason());
    ///     guard.unlock().await
    /// });
    /// client.shutdown(Duration::from_secs(10)).await?;
    /// work.await.expect("no panic")
    /// # }
    /// ```
    pub async fn shutdown(&self, grace: Duration) -> Result<()> {
        let shared = self.sessions.shared();
        if shared.runtime.is_inherited() {
            // A thread that only the parent has may hold the locks of its channels forever.
            shared.runtime.check()?;
        }
        shared.draining.send_replace(true);
        let unheld = async { Ok(timeout(grace, self.sessions.unheld()).await.is_ok()) };
        // The client is closed whether or not all locks were released.
        let _all = shared.runtime.within(unheld).await;
        self.close().await
    }

    /// Releases all locks, ends the session, and waits for the store to confirm.
    ///
    /// All clones are closed too. Guards are lost
    /// ([`ClientClosed`](crate::LostReason::ClientClosed)) before the store deletes their keys.
    /// Waiters and later calls fail with [`Error::Closed`](crate::Error::Closed). Calls on a guard
    /// report its loss instead. A second call of `close` returns the same result, or `Ok` if the
    /// store has confirmed the end of the session by then.
    ///
    /// `close` also waits until earlier, lost sessions have ended on the server. The client stops
    /// trying to end a lost session after two TTLs. The keys of that session then expire by the
    /// server's clock.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`](crate::Error::Unavailable) if the store does not confirm within the
    /// [`connect_timeout`](Builder::connect_timeout). [`Error::Denied`](crate::Error::Denied) or
    /// [`Error::Backend`](crate::Error::Backend) if the store refuses to end the session.
    /// [`Error::Runtime`](crate::Error::Runtime). Except in a forked child, the client is closed
    /// nevertheless, and its keys expire with the session's TTL.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, closing continues in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-close").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// client.close().await?;
    /// assert!(!guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub async fn close(&self) -> Result<()> {
        self.sessions.close().await
    }
}
