//! What a backend needs to know of its servers.

use std::time::Duration;

use crate::backend::{
    acl::Acl, bridge::Bridge, credentials::Credentials, source::Source, tls::Material,
};

/// What a backend over the network needs, checked.
#[cfg_attr(
    not(any(
        feature = "etcd",
        feature = "mysql",
        feature = "postgres",
        feature = "redis",
        feature = "redlock",
        feature = "zookeeper"
    )),
    allow(dead_code)
)]
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) endpoints: Vec<String>,
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres", feature = "redis")),
        allow(dead_code)
    )]
    /// The name of the database, on MySQL and PostgreSQL; its number on Redis.
    pub(crate) database: Option<String>,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) credentials: Option<Source<Credentials>>,
    pub(crate) tls: Option<Source<Material>>,
    #[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
    /// User and password go by SASL, on ZooKeeper.
    pub(crate) sasl: bool,
    #[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
    /// Who may do what with the nodes, on ZooKeeper.
    pub(crate) acl: Option<Acl>,
    #[cfg_attr(not(feature = "redis"), allow(dead_code))]
    /// The server may put away keys to make room for others, on Redis.
    pub(crate) allow_eviction: bool,
    #[cfg_attr(not(feature = "redis"), allow(dead_code))]
    /// Whom else its mutexes exclude, on Redis.
    pub(crate) bridge: Option<Bridge>,
    #[cfg_attr(not(feature = "redis"), allow(dead_code))]
    /// Without TLS, user and password may go to other hosts than this one: also to those that
    /// others name, on Redis.
    pub(crate) allow_plaintext: bool,
    #[cfg_attr(not(feature = "redis"), allow(dead_code))]
    /// So many replicas have to have what counts, on Redis.
    pub(crate) replicas: Option<u32>,
    #[cfg_attr(not(feature = "redlock"), allow(dead_code))]
    /// The longest TTL of any client of these nodes, on Redlock.
    pub(crate) longest_ttl: Duration,
    #[cfg_attr(not(feature = "redis"), allow(dead_code))]
    /// The endpoints are sentinels, which are asked for the primary of this name, on Redis.
    pub(crate) service: Option<String>,
}
