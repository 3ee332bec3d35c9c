//! What a backend needs to know of its servers.

use std::time::Duration;

use crate::backend::{acl::Acl, credentials::Credentials, source::Source, tls::Material};

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
}
