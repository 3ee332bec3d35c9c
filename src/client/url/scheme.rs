//! The schemes of URLs.

/// Each scheme's name, its store, its default port, and whether it means TLS.
pub(super) const SCHEMES: [(&str, Scheme, u16, bool); 16] = [
    ("memory", Scheme::Memory, 0, false),
    ("etcd", Scheme::Etcd, 2379, false),
    ("etcds", Scheme::Etcd, 2379, true),
    ("zk", Scheme::ZooKeeper, 2181, false),
    ("zookeeper", Scheme::ZooKeeper, 2181, false),
    ("zks", Scheme::ZooKeeper, 2281, true),
    ("mysql", Scheme::Mysql, 3306, false),
    ("postgres", Scheme::Postgres, 5432, false),
    ("postgresql", Scheme::Postgres, 5432, false),
    ("redis", Scheme::Redis, 6379, false),
    ("rediss", Scheme::Redis, 6379, true),
    ("redis+sentinel", Scheme::Redis, 26379, false),
    ("rediss+sentinel", Scheme::Redis, 26379, true),
    ("redlock", Scheme::Redlock, 6379, false),
    ("redlocks", Scheme::Redlock, 6379, true),
    ("sqlite", Scheme::Sqlite, 0, false),
];

/// The stores that a URL can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Memory,
    Etcd,
    ZooKeeper,
    Mysql,
    Postgres,
    Redis,
    Redlock,
    Sqlite,
}

impl Scheme {
    /// Returns the first name of the scheme.
    pub(crate) fn name(self) -> &'static str {
        SCHEMES.iter().find(|(_, scheme, ..)| *scheme == self).map_or("", |(name, ..)| name)
    }

    /// Returns `true` if the store is reached over a network.
    pub(crate) fn is_remote(self) -> bool {
        !matches!(self, Self::Memory | Self::Sqlite)
    }
}
