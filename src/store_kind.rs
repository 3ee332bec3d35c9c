//! The kinds of stores that keep locks.

use std::fmt;

/// Names a kind of store, as returned by [`Client::backend`](crate::Client::backend).
///
/// The `Display` output is a name such as `etcd`, `ZooKeeper` or `PostgreSQL`. MariaDB is shown as
/// `MySQL`, and Valkey as `Redis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StoreKind {
    /// etcd: `etcd://` and `etcds://`.
    Etcd,
    /// ZooKeeper: `zk://`, `zookeeper://` and `zks://`.
    ZooKeeper,
    /// PostgreSQL: `postgres://` and `postgresql://`.
    Postgres,
    /// MySQL or MariaDB: `mysql://`.
    Mysql,
    /// Redis or Valkey: `redis://`, `rediss://`, `redis+sentinel://` and `rediss+sentinel://`.
    Redis,
    /// Several independent Redis or Valkey servers: `redlock://` and `redlocks://`.
    Redlock,
    /// An SQLite file: `sqlite://`.
    Sqlite,
    /// A store within the process: `memory://`.
    Memory,
}

impl StoreKind {
    /// Returns the name for errors, metrics and logs.
    ///
    /// Metrics and logs show ZooKeeper as `zookeeper`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ZooKeeper => "ZooKeeper",
            Self::Postgres => "PostgreSQL",
            Self::Mysql => "MySQL",
            Self::Redis => "Redis",
            Self::Redlock => "Redlock",
            Self::Sqlite => "SQLite",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
