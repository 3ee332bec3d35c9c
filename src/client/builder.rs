//! The options of a client, checked before anything is sent.

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
/// No client of the same Redlock nodes has a longer TTL, unless the URL says so for all of them.
const LONGEST_TTL: Duration = Duration::from_secs(60);
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Describes a [`Client`]; made by [`Client::builder`].
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
    /// They come before the URL's.
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

    /// Where in the store the locks lie: an absolute path of printable ASCII, up to 255 bytes.
    /// Default `/distlock`. Clients exclude each other only within one namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.options.namespace = Some(namespace.into());
        self
    }

    /// How long the store keeps the locks of a client it hears nothing of: 100 ms to a day, default
    /// 10 s. What the server grants may differ: [`Client::session_ttl`] tells. Short, and a crashed
    /// holder's lock is soon free; long, and holders ride out slow networks and restarting servers.
    ///
    /// All servers of a ZooKeeper ensemble have to allow it (`minSessionTimeout`,
    /// `maxSessionTimeout`; by default 2 and 20 ticks). When a session moves to one that allows
    /// less, the client is not told, and that server gives its locks away while their holders still
    /// count on the longer time.
    pub fn session_ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// A text that operators find in each key: up to 1,024 bytes, default host name and process id.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.options.owner = Some(owner.into());
        self
    }

    /// How long to try for a session, at connecting and when a lost one is replaced. Default 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = Some(timeout);
        self
    }

    /// How long to wait for a server's answer before another server is asked. Default half the
    /// session's TTL, at least 1 s and at most 3 s.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.options.request_timeout = Some(timeout);
        self
    }

    /// How often a waiter looks again though it was told nothing, and a session asks for the keys
    /// of all locks that it holds: servers do lose watch events now and then. Default 20 s or the
    /// session's TTL, whichever is longer; up to a quarter is added at random.
    pub fn recheck_interval(mut self, interval: Duration) -> Self {
        self.options.recheck_interval = Some(interval);
        self
    }

    /// Has the client's own work done by this runtime: keepalives, watches, and what is to be
    /// finished after a future or a guard was dropped. By default the library has a runtime of its
    /// own, two threads for the whole process.
    ///
    /// What it costs: the client then lives and dies with that runtime. If its threads are blocked
    /// for longer than a lease lasts, the locks are lost, and the guards are notified. When it
    /// is shut down, all guards are lost at once
    /// ([`KeeperStopped`](crate::LostReason::KeeperStopped)), calls fail with [`Error::Runtime`],
    /// and the servers free the locks a TTL later. A current-thread runtime works only while
    /// `block_on` runs on it. So hand one in if a program may have no threads but its own, or to
    /// keep all work on a runtime that does nothing else.
    ///
    /// A client of `memory://` that connects within a runtime whose clock is stopped
    /// (`tokio::time::pause`, `#[tokio::test(start_paused = true)]`) has its work done by that
    /// runtime in any case: such a clock does not wait for other threads.
    ///
    /// [`connect`](Self::connect) fails with [`Error::InvalidArgument`] if its timers are not
    /// enabled. Etcd and ZooKeeper also need its I/O: `enable_all` does both.
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

    /// Gives the metrics of each lock the label `lock`, which this function makes of its name. By
    /// default they have none: a recorder keeps a series for each value for ever, so names that
    /// have an order's or a customer's number in them must not become labels as they are. It is
    /// called once for each call for a lock, and does something only with the feature `metrics`.
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

    /// Connects and opens a session, so that a client is known to work once it is there.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`], [`Error::InvalidArgument`] and [`Error::FeatureDisabled`] before
    /// anything is sent. [`Error::Unavailable`] if no server gives a session within the
    /// [`connect_timeout`](Self::connect_timeout), each having been tried once. [`Error::Denied`]
    /// if they refuse the credentials or the certificate.
    ///
    /// # Cancel safety
    ///
    /// Safe. A session whose opening was under way ends with its TTL.
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

    /// A client at once, for services that start before their store. The options are checked as
    /// [`connect`](Self::connect) does; no session is there yet, and
    /// [`health`](Client::health) says [`NotOpened`](crate::Health::NotOpened). The first call that
    /// needs a session opens one, as it would after the session was lost: it fails with
    /// [`Error::Unavailable`] if no server gives one within the
    /// [`connect_timeout`](Self::connect_timeout), and the next call tries again.
    /// [`ping`](Client::ping) opens one and does nothing else.
    ///
    /// Until then [`session_ttl`](Client::session_ttl) tells what will be asked for.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`], [`Error::InvalidArgument`] and [`Error::FeatureDisabled`]. Files of
    /// certificates and passwords have to be there already.
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

    /// What the client's sessions need.
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
            return invalid("owner", "at most 1,024 bytes: it is stored with every key");
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
                "must be at most longest_ttl, which is {longest_ttl:?} here: the URLs of all \
                 clients of these nodes set it by ?longest_ttl="
            );
            return invalid("session_ttl", &reason);
        }
        #[cfg(feature = "postgres")]
        if self.pool.is_some() && url.scheme != Scheme::Postgres {
            return invalid("postgres_pool", "needs a URL of PostgreSQL: postgres://host/database");
        }
        #[cfg(feature = "mysql")]
        if self.mysql_pool.is_some() && url.scheme != Scheme::Mysql {
            return invalid("mysql_pool", "needs a URL of MySQL: mysql://host/database");
        }
        let credentials = self.credentials.or(url.credentials);
        let credentials = credentials.map(security::open_credentials).transpose()?;
        let tls = self.tls.or(url.tls.map(Origin::Fixed)).map(security::open_tls).transpose()?;
        let plaintext =
            self.options.allow_plaintext_credentials || url.options.allow_plaintext_credentials;
        if credentials.is_some() && tls.is_none() && !plaintext && url.scheme.is_remote() {
            security::stays_here(&url.endpoints)?;
        }
        let sasl = self.options.sasl || url.options.sasl;
        let acl = self.acl.as_ref().map(|acl| acl.expose().clone()).or(url.options.acl);
        for (option, set) in [("sasl", sasl), ("acl", acl.is_some())] {
            if set && url.scheme != Scheme::ZooKeeper {
                return invalid(option, "that is ZooKeeper's: leave it out");
            }
        }
        if sasl && credentials.is_none() {
            return invalid("sasl", "needs user and password: see Builder::credentials");
        }
        if sasl && cfg!(not(feature = "zookeeper-sasl")) {
            return invalid(
                "sasl",
                "needs the feature `zookeeper-sasl`: add it to distlock in Cargo.toml",
            );
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
                None => return invalid("runtime", "its timers are off: build it by `enable_all`"),
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

/// Host name and process id.
fn default_owner() -> String {
    #[cfg(target_os = "linux")]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(target_os = "linux"))]
    let host = std::env::var("HOSTNAME")
        .or_else(|_| std::env::var("COMPUTERNAME"))
        .unwrap_or_else(|_| "host".into());
    format!("{host}:{}", std::process::id())
}
