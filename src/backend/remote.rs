//! What a backend needs to know of its servers.

use std::time::Duration;

#[cfg(feature = "postgres")]
use crate::backend::postgres::pool::UserPool;
use crate::backend::{
    acl::Acl, bridge::Bridge, credentials::Credentials, source::Source, tls::Material,
};

/// What a backend over the network needs, checked.
// Each store reads a part of it.
#[cfg_attr(
    not(all(feature = "mysql", feature = "redis", feature = "redlock", feature = "zookeeper")),
    allow(dead_code)
)]
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) endpoints: Vec<String>,
    /// The name of the database, on MySQL and PostgreSQL; its number on Redis.
    pub(crate) database: Option<String>,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) credentials: Option<Source<Credentials>>,
    pub(crate) tls: Option<Source<Material>>,
    /// User and password go by SASL, on ZooKeeper.
    pub(crate) sasl: bool,
    /// Who may do what with the nodes, on ZooKeeper.
    pub(crate) acl: Option<Acl>,
    /// The server may put away keys to make room for others, on Redis.
    pub(crate) allow_eviction: bool,
    /// Whom else its mutexes exclude, on Redis.
    pub(crate) bridge: Option<Bridge>,
    /// Without TLS, user and password may go to other hosts than this one: also to those that
    /// others name, on Redis.
    pub(crate) allow_plaintext: bool,
    /// So many replicas have to have what counts, on Redis.
    pub(crate) replicas: Option<u32>,
    /// The longest TTL of any client of these nodes, on Redlock.
    pub(crate) longest_ttl: Duration,
    /// A pooler lends the server's connections for one transaction each, on PostgreSQL.
    pub(crate) pooled: bool,
    /// What is not a session's renewal goes by these connections of the user's.
    #[cfg(feature = "postgres")]
    pub(crate) pool: Option<UserPool>,
    /// The same on MySQL.
    #[cfg(feature = "mysql")]
    pub(crate) mysql_pool: Option<crate::backend::mysql::pool::UserPool>,
    /// What the names of keys begin with, on Redis.
    pub(crate) namespace: String,
    /// The endpoints are sentinels, which are asked for the primary of this name, on Redis.
    pub(crate) service: Option<String>,
}

#[cfg(feature = "_network")]
#[cfg_attr(feature = "zookeeper", allow(dead_code))] // It needs the certificates alone.
impl Remote {
    /// How long it may take to begin a session.
    pub(crate) fn opening_timeout(&self) -> Duration {
        self.connect_timeout.mul_f64(0.9)
    }

    /// The newest certificates.
    pub(crate) fn material(&self) -> Option<std::sync::Arc<Material>> {
        self.tls.as_ref().map(Source::newest)
    }

    /// Who one is was refused, or may be: it may have been replaced a moment ago.
    pub(crate) fn expire_credentials(&self) {
        self.credentials.iter().for_each(Source::expire);
    }
}
