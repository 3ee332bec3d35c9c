//! The client: what a program makes once and takes its locks from.

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

/// Where [`Client::from_env`] looks.
const URL_VARIABLE: &str = "DISTLOCK_URL";

/// A connection to a store, and the session that its locks live in. Cheap to clone; all clones are
/// one client.
///
/// A client keeps one session alive for all locks that it holds or waits for. On ZooKeeper it opens
/// another session for every 100 KiB of watched keys, because no more can be restored after a
/// reconnect, and for every 512 KiB of its own keys.
///
/// It runs on a small runtime of the library's own, so that a blocked or ended runtime of the
/// caller's stops no keepalive. When its session is lost, every guard is told, and the next lock
/// opens a new session.
///
/// When the last clone, guard and waiter are gone the session is ended in the background;
/// [`close`](Self::close) does it at once and tells how it went.
#[derive(Clone, Debug)]
pub struct Client {
    sessions: Sessions,
    holders: Arc<Holders>,
}

impl Client {
    /// Connects with the defaults: [`Client::builder`]`(url).connect()`.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    ///
    /// # Cancel safety
    ///
    /// Safe. A session whose opening was under way ends with its TTL.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-connect").await?;
    /// # client.close().await }
    /// ```
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        // Nothing of the URL is left in this future while it waits: it may have a password in it.
        let builder = Self::builder(url);
        builder.connect().await
    }

    /// Starts to describe a client. The URL is `etcd://host:2379`, `zk://host:2181`,
    /// `postgres://host:5432/database`, `mysql://host:3306/database` (several hosts of one cluster
    /// separated by commas), `sqlite:///path/of/a/file` (or `sqlite://relative/path`), a store for
    /// the processes of one host, or `memory://name`, a store within this process.
    ///
    /// Redis and Valkey are `redis://host:6379/0`, by TLS `rediss://`: one server, several of which
    /// one is the primary, or some of a cluster's. `redis+sentinel://s1,s2,s3/service` asks
    /// sentinels for the primary that they know by that name. The options of these are `replicas`,
    /// how many replicas (1 to 32) must have what is to count, `allow_eviction`, and with sentinels
    /// `db`, the database's number.
    ///
    /// `etcds://` and `zks://` connect by TLS. A URL may have all that a program's operator wants
    /// to set: `etcd://user:password@h1,h2/namespace?session_ttl=15s&request_timeout=2s`, with user
    /// and password percent-escaped. The options are `session_ttl`, `owner`, `connect_timeout`,
    /// `request_timeout`, `recheck_interval`, `sasl`, `acl` and
    /// `allow_plaintext_credentials`; `password_file` for `user@`; `ca_file`, `cert_file`,
    /// `key_file` and `server_name` for `etcds://` and `zks://`. On PostgreSQL and MySQL the
    /// namespace stands behind the database, and TLS is `sslmode=verify-full`, or `require`, which
    /// checks as much. PostgreSQL may be named as libpq does, also by the directory of its Unix
    /// socket, percent-escaped in the host's place or in the option `host`; with
    /// `pooler=transaction` it is reached through a pooler in transaction mode. On SQLite the path
    /// is the file's, and the namespace is the option `namespace`. `redlock://h1,h2,h3` takes an
    /// odd number of servers of Redis or Valkey, and offers mutexes alone. Its option
    /// `longest_ttl`, 60 s by default, is the longest TTL of any client of these nodes.
    /// Mutexes alone are offered too by `redis://host:6379?bridge=plain` (or `redisson`, both with
    /// `bridge_prefix`): they exclude those, too, who lock the same keys with another library.
    /// Other options are refused. The builder's methods go before what the URL says.
    pub fn builder(url: impl AsRef<str>) -> Builder {
        Builder::new(url.as_ref())
    }

    /// Connects to what the environment names: the URL in `DISTLOCK_URL`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if it is not set or not UTF-8,
    /// otherwise as [`Builder::connect`].
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
            VarError::NotPresent => "set it to the store's URL, as in etcd://host:2379",
            VarError::NotUnicode(_) => "it is not UTF-8",
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

    /// The lock of this name. No I/O: the name is checked when it is first locked.
    ///
    /// Any non-empty string will do, of up to 255 bytes once percent-escaped (`/` too, so that no
    /// name lies inside another).
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex {
            named: Named::new(&self.sessions, LockKind::Mutex, name),
            holders: Arc::clone(&self.holders),
        }
    }

    /// The read-write lock of this name. No I/O: the name is checked when it is first locked. It
    /// has nothing to do with a mutex of the same name.
    #[must_use]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock { named: Named::new(&self.sessions, LockKind::RwLock, name) }
    }

    /// The semaphore of this name, with so many permits for all clients together: all have to name
    /// the same number. No I/O: name and number are checked at the first acquisition.
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore { named: Named::new(&self.sessions, LockKind::Semaphore, name), permits }
    }

    /// The election of this name. No I/O: the name is checked when it is first used. It has nothing
    /// to do with a mutex of the same name.
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election { named: Named::new(&self.sessions, LockKind::Election, name) }
    }

    /// All locks of the namespace at which somebody stands, by their names: mutexes, read-write
    /// locks, semaphores and elections of all clients.
    ///
    /// It asks the store for the names in one request (on etcd for all keys below the namespace),
    /// and then looks at each queue as [`Mutex::queue`] does. These looks are not of one moment.
    ///
    /// # Errors
    ///
    /// As [`Mutex::queue`], but for the name.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
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

    /// What the server granted as the session's time to live: how long a crashed holder's lock
    /// stays taken. It may differ from what the builder asked for: etcd grants whole seconds and at
    /// least one and a half election timeouts, ZooKeeper between 2 and 20 of its ticks, PostgreSQL,
    /// MySQL and SQLite at least a second.
    #[must_use]
    pub fn session_ttl(&self) -> Duration {
        self.sessions.timing().ttl
    }

    /// Returns how long a held lock is certain at least while all is well: what is left just before
    /// the next renewal. For the command, which ends its children within that time.
    #[doc(hidden)]
    #[must_use]
    pub fn deadline_reserve(&self) -> Duration {
        self.sessions.timing().reserve()
    }

    /// Returns what kind of store keeps the locks.
    #[must_use]
    pub fn backend(&self) -> StoreKind {
        self.sessions.shared().backend.kind()
    }

    /// The text that operators find in each key: [`Builder::owner`].
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.sessions.shared().owner
    }

    /// Where in the store the locks lie: [`Builder::namespace`].
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.sessions.shared().namespace
    }

    /// Whether [`close`](Self::close) was called on it, or on a clone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sessions.is_closed()
    }

    /// Lets holders come to an end, and closes the client: what a service does at SIGTERM.
    ///
    /// From now on nothing is granted: those who wait and those who come get
    /// [`Error::Closed`](crate::Error::Closed). Holders are told by
    /// [`release_requested`](crate::LockGuard::release_requested), and keep their locks until they
    /// let go, or until `grace` is over. Then the client is [closed](Self::close): holders that are
    /// left lose their locks, and are told so.
    ///
    /// # Errors
    ///
    /// As [`close`](Self::close).
    ///
    /// # Cancel safety
    ///
    /// Once polled, nothing is granted any more. If it is dropped before the client is closed,
    /// holders keep what they have.
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
        shared.draining.send_replace(true);
        let unheld = async { Ok(timeout(grace, self.sessions.unheld()).await.is_ok()) };
        // Whether or not all have let go.
        let _all = shared.runtime.within(unheld).await;
        self.close().await
    }

    /// Releases everything and ends the session. `Ok` when the store has confirmed it.
    ///
    /// All clones are closed. Guards are told [`ClientClosed`](crate::LostReason::ClientClosed)
    /// before the store lets go of their keys; waiters and later calls get
    /// [`Error::Closed`](crate::Error::Closed).
    /// Closing again tells the same, or that it was confirmed since. A session that was lost before
    /// counts until it is ended too, or was given up after two TTLs: then its keys are left to the
    /// server's clock.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`](crate::Error::Unavailable) if the store does not confirm within the
    /// [`connect_timeout`](Builder::connect_timeout): the client is closed all the same, and its
    /// keys go when the session's TTL ends.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the closing goes on in the background.
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
