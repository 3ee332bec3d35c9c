//! The configuration with which a backend reaches its servers.

use std::time::Duration;

#[cfg(feature = "postgres")]
use crate::backend::postgres::pool::UserPool;
use crate::backend::{
    acl::Acl, bridge::Bridge, credentials::Credentials, source::Source, tls::Material,
};

/// The checked configuration of a backend.
// Each store reads a part of it.
#[cfg_attr(
    not(all(feature = "mysql", feature = "redis", feature = "redlock", feature = "zookeeper")),
    allow(dead_code)
)]
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) endpoints: Vec<String>,
    /// The name of the database on MySQL and PostgreSQL, and its number on Redis.
    pub(crate) database: Option<String>,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) credentials: Option<Source<Credentials>>,
    pub(crate) tls: Option<Source<Material>>,
    /// On ZooKeeper, the client authenticates with SASL.
    pub(crate) sasl: bool,
    /// The ACL of the nodes on ZooKeeper.
    pub(crate) acl: Option<Acl>,
    /// On Redis, the server may evict keys when it is full.
    pub(crate) allow_eviction: bool,
    /// On Redis, the libraries whose locks the mutexes also exclude.
    pub(crate) bridge: Option<Bridge>,
    /// The user and the password may be sent to other hosts without TLS. On Redis, this includes
    /// hosts that sentinels or servers of a cluster name.
    pub(crate) allow_plaintext: bool,
    /// On Redis, the number of replicas that must confirm each write.
    pub(crate) replicas: Option<u32>,
    /// On Redlock, the longest TTL of any client of these nodes.
    pub(crate) longest_ttl: Duration,
    /// On PostgreSQL, a pooler lends each connection for one transaction.
    pub(crate) pooled: bool,
    /// The program's own pool, which lends connections for most requests.
    #[cfg(feature = "postgres")]
    pub(crate) pool: Option<UserPool>,
    /// The program's own pool on MySQL.
    #[cfg(feature = "mysql")]
    pub(crate) mysql_pool: Option<crate::backend::mysql::pool::UserPool>,
    /// On Redis, the names of keys contain the namespace.
    pub(crate) namespace: String,
    /// On Redis, the service whose primary the sentinels name. The endpoints are then sentinels.
    pub(crate) service: Option<String>,
}

#[cfg(feature = "_network")]
#[cfg_attr(feature = "zookeeper", allow(dead_code))] // ZooKeeper uses only the certificates.
impl Remote {
    /// Returns servers without TLS and credentials.
    #[cfg(all(test, any(feature = "etcd", feature = "zookeeper")))]
    pub(crate) fn plain(endpoints: Vec<String>) -> Self {
        let timeout = Duration::from_secs(5);
        Self {
            endpoints,
            database: None,
            connect_timeout: timeout,
            request_timeout: timeout,
            credentials: None,
            tls: None,
            sasl: false,
            acl: None,
            allow_eviction: false,
            bridge: None,
            allow_plaintext: false,
            replicas: None,
            pooled: false,
            #[cfg(feature = "postgres")]
            pool: None,
            #[cfg(feature = "mysql")]
            mysql_pool: None,
            longest_ttl: Duration::from_secs(60),
            namespace: "/distlock".to_owned(),
            service: None,
        }
    }

    /// Returns how long opening a session may take.
    pub(crate) fn opening_timeout(&self) -> Duration {
        self.connect_timeout.mul_f64(0.9)
    }

    /// Returns the newest certificates.
    pub(crate) fn material(&self) -> Option<std::sync::Arc<Material>> {
        self.tls.as_ref().map(Source::newest)
    }

    /// Makes the next request read the credentials again, after the server has rejected them or may
    /// have rejected them.
    pub(crate) fn expire_credentials(&self) {
        self.credentials.iter().for_each(Source::expire);
    }
}
