//! The options of a client, which are checked before any request is sent.

mod backend;
#[cfg(feature = "mysql")]
mod mysql_pool;
#[cfg(feature = "postgres")]
mod postgres_pool;
mod security;

use std::time::Duration;

use crate::{
    backend::{
        acl::Acl, credentials::Credentials, name::check_namespace, remote::Remote, secret::Secret,
        source::Origin, tls::Tls,
    },
    client::{
        Client,
        options::Options,
        url::{Given, Scheme},
    },
    error::{Error, Result},
    runtime::{Runtime, executor::Executor},
    session::{Shared, timing::Timing},
    telemetry::{Label, Telemetry},
};

/// The longest owner text, in bytes: it is stored with every key.
const MAX_OWNER: usize = 1024;
const DEFAULT_TTL: Duration = Duration::from_secs(10);
const MIN_TTL: Duration = Duration::from_millis(100);
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The default of `longest_ttl`: the longest TTL of any client of the same Redlock nodes.
const LONGEST_TTL: Duration = Duration::from_secs(60);
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Configures a [`Client`]. Created by [`Client::builder`].
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// let client = distlock::Client::builder("memory://docs-builder")
///     .namespace("/app/locks")
///     .session_ttl(Duration::from_secs(15))
///     .owner("worker-7")
///     .connect()
///     .await?;
/// assert_eq!(client.session_ttl(), Duration::from_secs(15));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `connect`"]
pub struct Builder {
    url: Given,
    /// The options that methods have set. They take precedence over the URL's.
    options: Options,
    credentials: Option<Origin<Credentials>>,
    acl: Option<Secret>,
    tls: Option<Origin<Tls>>,
    runtime: Option<tokio::runtime::Handle>,
    metric_label: Option<Label>,
    #[cfg(feature = "postgres")]
    pool: Option<crate::backend::postgres::pool::UserPool>,
    #[cfg(feature = "mysql")]
    mysql_pool: Option<crate::backend::mysql::pool::UserPool>,
}

impl Builder {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: Given::new(url),
            options: Options::default(),
            credentials: None,
            acl: None,
            tls: None,
            runtime: None,
            metric_label: None,
            #[cfg(feature = "postgres")]
            pool: None,
            #[cfg(feature = "mysql")]
            mysql_pool: None,
        }
    }

    /// Sets the path of the locks in the store.
    ///
    /// The path must be absolute, at most 255 bytes long, and printable ASCII without spaces. No
    /// part may be empty, `.`, `..` or `!began`. `/zookeeper` is reserved. By default `/distlock`.
    /// Clients exclude each other only within one namespace. A bridge on Redis ignores namespaces.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.options.namespace = Some(namespace.into());
        self
    }

    /// Sets the TTL of the client's session.
    ///
    /// The TTL must be between 100 ms and 24 h, and on Redlock at most `longest_ttl`. The default
    /// is 10 s. The store frees the client's locks when it has received no keepalive for at least
    /// the granted TTL, which [`Client::session_ttl`] returns. A short TTL frees a crashed holder's
    /// lock sooner; a long one survives slow networks and server restarts.
    ///
    /// All servers of a ZooKeeper ensemble must allow this TTL (`minSessionTimeout` and
    /// `maxSessionTimeout`, by default 2 and 20 ticks). If a session moves to a server with a lower
    /// limit, the client is not notified. That server may then grant the session's locks to other
    /// clients while the guards are still valid.
    pub fn session_ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Sets the text that identifies the client to operators.
    ///
    /// The text is stored with the client's keys, except in elections, which store the candidate's
    /// value. The limit is 1,024 bytes. The default is the host name, if known, and the process ID.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.options.owner = Some(owner.into());
        self
    }

    /// Sets how long the client tries to open a session, by default 5 s.
    ///
    /// The timeout applies to each session, and limits how long [`close`](Client::close) waits.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = Some(timeout);
        self
    }

    /// Sets how long the client waits for the reply to a request.
    ///
    /// The default is half of the requested TTL, but at least 1 s and at most 3 s. The limits of
    /// keepalives on etcd and ZooKeeper follow from the TTL instead. On Redlock, the limit is a
    /// quarter of the TTL for renewals, and otherwise 0.1 TTL, but at most 200 ms.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.options.request_timeout = Some(timeout);
        self
    }

    /// Sets how often the client rechecks the locks that it holds or waits for.
    ///
    /// A server may lose a watch event. Except on Redlock, waiters therefore recheck their place in
    /// the queue at this interval, and the session rereads the keys of held locks. The default is
    /// 20 s, or the requested TTL if longer. Each interval is randomly extended by up to 25 %.
    pub fn recheck_interval(mut self, interval: Duration) -> Self {
        self.options.recheck_interval = Some(interval);
        self
    }

    /// Runs the client's background work on this runtime.
    ///
    /// The work includes keepalives, watches, and the cleanup after a future or guard is dropped.
    /// By default, it runs on the library's own runtimes, which have up to two worker threads per
    /// process.
    ///
    /// The client depends on this runtime. While the runtime's threads are blocked, no keepalives
    /// are sent, and locks can be lost in less than a TTL. When the runtime is shut down, all
    /// guards are lost at once ([`KeeperStopped`](crate::LostReason::KeeperStopped)), calls that
    /// acquire a lock fail with [`Error::Runtime`], and the store frees the locks when the session
    /// expires. A current-thread runtime works only while `block_on` runs on it. Pass a runtime if
    /// the library must not start worker threads, or if one runtime should do only this work. On
    /// SQLite, each open file needs a thread in any case, and so does ZooKeeper's client crate.
    ///
    /// If the clock of the current runtime is paused (`tokio::time::pause`,
    /// `#[tokio::test(start_paused = true)]`), a new client of `memory://` uses that runtime by
    /// default, because a paused clock does not wait for other threads.
    ///
    /// The runtime's timers must be enabled; otherwise, [`connect`](Self::connect) fails with
    /// [`Error::InvalidArgument`]. Stores on a network also need its I/O driver: use `enable_all`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    /// let builder = distlock::Client::builder("memory://docs").runtime(locks.handle().clone());
    /// locks.block_on(async {
    ///     let client = builder.connect().await?;
    ///     client.mutex("a").lock().await?.unlock().await
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn runtime(mut self, runtime: tokio::runtime::Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Sets the function that turns a lock's name into the metrics' label `lock`.
    ///
    /// By default, the metrics do not have this label. Most recorders keep a series for each label
    /// value. If names contain order or customer numbers, do not use them as labels unchanged. The
    /// function is called for every call that acquires a lock. A closure must capture nothing. This
    /// method has an effect only with the feature `metrics`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// // `order-4711` and `order-4712` are counted as `order`.
    /// let kind = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
    /// let builder = distlock::Client::builder("memory://docs-label").metric_label(kind);
    /// builder.connect().await?.mutex("order-4711").lock().await?.unlock().await
    /// # }
    /// ```
    pub fn metric_label(mut self, label: fn(&str) -> String) -> Self {
        self.metric_label = Some(label);
        self
    }

    /// Connects to the store and opens a session.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`], [`Error::InvalidArgument`] and [`Error::FeatureDisabled`] before any
    /// request is sent. [`Error::Unavailable`] if no server opens a session within the
    /// [`connect_timeout`](Self::connect_timeout): `connect` tries once. [`Error::Denied`] if the
    /// servers reject the user or the certificate. [`Error::Backend`] if a server is unfit for
    /// locks. [`Error::Runtime`], and on Redis [`Error::NotYet`].
    ///
    /// # Cancel safety
    ///
    /// Safe. If the future is dropped, a session that was being opened ends after its TTL.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let builder = distlock::Client::builder("memory://docs").namespace("locks");
    /// let error = builder.connect().await.unwrap_err();
    /// assert!(matches!(error, distlock::Error::InvalidArgument { argument: "namespace", .. }));
    /// # }
    /// ```
    pub async fn connect(self) -> Result<Client> {
        Client::open(self.check()?).await
    }

    /// Creates a client without connecting, for services that start before their store.
    ///
    /// The options are checked in the same way as in [`connect`](Self::connect).
    /// [`health`](Client::health) returns [`NotOpened`](crate::Health::NotOpened) until the first
    /// call that needs a session opens one. After a transient error, that call retries within the
    /// `connect_timeout`. Without a session, the call fails as [`connect`](Self::connect) does, and
    /// the next call tries again. [`ping`](Client::ping) opens a session and acquires no lock.
    /// Until a session is open, [`session_ttl`](Client::session_ttl) returns the requested TTL.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`], [`Error::InvalidArgument`], [`Error::FeatureDisabled`] and
    /// [`Error::Runtime`]. Certificate and password files must already exist.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # use distlock::Health;
    /// let client = distlock::Client::builder("memory://docs-lazy").connect_lazy()?;
    /// assert_eq!(client.health(), Health::NotOpened);
    /// client.mutex("a").lock().await?.unlock().await?;
    /// assert_ne!(client.health(), Health::NotOpened);
    /// # Ok(()) }
    /// ```
    pub fn connect_lazy(self) -> Result<Client> {
        Ok(Client::lazy(self.check()?))
    }

    /// Checks the options and returns the configuration of the client's sessions.
    fn check(self) -> Result<Shared> {
        let invalid = |option, reason: &str| Err(Error::invalid(option, reason));
        let url = self.url.parse()?;
        let namespace =
            self.options.namespace.or(url.namespace).unwrap_or_else(|| "/distlock".to_owned());
        check_namespace(&namespace)?;
        let ttl = self.options.ttl.or(url.options.ttl).unwrap_or(DEFAULT_TTL);
        if !(MIN_TTL..=MAX_TTL).contains(&ttl) {
            return invalid("session_ttl", "must be between 100 ms and 24 h");
        }
        let timing = Timing { ttl, relayed: false };
        let owner = self.options.owner.or(url.options.owner).unwrap_or_else(default_owner);
        if owner.len() > MAX_OWNER {
            let reason = "must be at most 1,024 bytes, because it is stored with every key";
            return invalid("owner", reason);
        }
        let connect_timeout = self.options.connect_timeout.or(url.options.connect_timeout);
        let connect_timeout = connect_timeout.unwrap_or(Duration::from_secs(5));
        let request_timeout = self.options.request_timeout.or(url.options.request_timeout);
        let request_timeout = request_timeout.unwrap_or(timing.request_timeout());
        let recheck_interval = self.options.recheck_interval.or(url.options.recheck_interval);
        let recheck_interval = recheck_interval.unwrap_or(timing.recheck_interval());
        for (option, value) in [
            ("connect_timeout", connect_timeout),
            ("request_timeout", request_timeout),
            ("recheck_interval", recheck_interval),
        ] {
            if !(Duration::from_millis(1)..=MAX_TIMEOUT).contains(&value) {
                return invalid(option, "must be between 1 ms and 24 h");
            }
        }
        let longest_ttl = url.options.longest_ttl.unwrap_or(LONGEST_TTL);
        if longest_ttl > MAX_TTL {
            return invalid("longest_ttl", "must be at most 24 h");
        }
        if url.scheme == Scheme::Redlock && ttl > longest_ttl {
            let reason = format!(
                "must be at most longest_ttl, which is {longest_ttl:?} here: to raise it, set \
                 ?longest_ttl= in the URLs of all clients of these nodes"
            );
            return invalid("session_ttl", &reason);
        }
        #[cfg(feature = "postgres")]
        if self.pool.is_some() && url.scheme != Scheme::Postgres {
            return invalid("postgres_pool", "needs a PostgreSQL URL: postgres://host/database");
        }
        #[cfg(feature = "mysql")]
        if self.mysql_pool.is_some() && url.scheme != Scheme::Mysql {
            return invalid("mysql_pool", "needs a MySQL URL: mysql://host/database");
        }
        let credentials = self.credentials.or(url.credentials);
        let secret = credentials.as_ref().is_some_and(security::has_password);
        let credentials = credentials.map(security::open_credentials).transpose()?;
        let tls = self.tls.or(url.tls.map(Origin::Fixed));
        if tls.is_some() {
            security::is_compiled_in(url.scheme)?;
        }
        let tls = tls.map(security::open_tls).transpose()?;
        let plaintext =
            self.options.allow_plaintext_credentials || url.options.allow_plaintext_credentials;
        if secret && tls.is_none() && !plaintext && url.scheme.is_remote() {
            security::stays_here(&url.endpoints)?;
        }
        let sasl = self.options.sasl || url.options.sasl;
        let acl = self.acl.as_ref().map(|acl| acl.expose().clone()).or(url.options.acl);
        for (option, set) in [("sasl", sasl), ("acl", acl.is_some())] {
            if set && url.scheme != Scheme::ZooKeeper {
                return invalid(option, "only ZooKeeper has this option: leave it out");
            }
        }
        if sasl && credentials.is_none() {
            return invalid("sasl", "needs a user and a password: see Builder::credentials");
        }
        if sasl && cfg!(not(feature = "zookeeper-sasl")) {
            let feature = "needs the feature `zookeeper-sasl` of distlock: enable it, and rebuild";
            return invalid("sasl", feature);
        }
        let acl = acl.map(|acl| acl.parse::<Acl>()).transpose();
        let acl = acl.map_err(|reason| Error::invalid("acl", reason))?;
        let runtime = match self.runtime {
            None => match (url.scheme == Scheme::Memory).then(Executor::with_stopped_clock) {
                Some(Some(executor)) => Runtime::of_the_program(executor),
                _ => Runtime::of_a_client()?,
            },
            Some(handle) => match Executor::of(handle) {
                Some(executor) => Runtime::of_the_program(executor),
                None => {
                    let disabled = "its timers are disabled: build it with `enable_all`";
                    return invalid("runtime", disabled);
                }
            },
        };
        let remote = Remote {
            endpoints: url.endpoints,
            database: url.database,
            connect_timeout,
            request_timeout,
            credentials,
            tls,
            sasl,
            acl,
            allow_eviction: url.options.allow_eviction,
            bridge: url.options.bridge,
            allow_plaintext: plaintext,
            replicas: url.options.replicas,
            longest_ttl,
            pooled: url.options.pooled,
            #[cfg(feature = "postgres")]
            pool: self.pool,
            #[cfg(feature = "mysql")]
            mysql_pool: self.mysql_pool,
            namespace: namespace.clone(),
            service: url.service,
        };
        let backend = backend::of(url.scheme, remote)?;
        let telemetry = Telemetry::new(backend.kind().name(), self.metric_label);
        Ok(Shared {
            backend,
            runtime,
            namespace,
            ttl,
            owner,
            connect_timeout,
            request_timeout,
            recheck_interval,
            draining: Default::default(),
            telemetry,
        })
    }
}

/// Returns the host name and the process ID.
fn default_owner() -> String {
    #[cfg(target_os = "linux")]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(target_os = "linux"))]
    let host = std::env::var("HOSTNAME")
        .or_else(|_| std::env::var("COMPUTERNAME"))
        .unwrap_or_else(|_| "host".into());
    format!("{host}:{}", std::process::id())
}
