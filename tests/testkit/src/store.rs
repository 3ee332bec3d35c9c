//! The stores of the torture test and the benchmark, and their properties.

use std::str::FromStr;

use serde::{Deserialize, Serialize, de::IntoDeserializer};

use crate::backend::Backend;

/// A store in one deployment. Command lines and reports use its name in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// A cluster of three.
    #[default]
    Etcd,
    /// An ensemble of three.
    #[serde(rename = "zookeeper")]
    ZooKeeper,
    /// One server.
    Postgres,
    /// With a standby that must confirm commits.
    PostgresStandby,
    /// With a standby that may lag.
    PostgresAsync,
    /// One server behind a pooler in transaction mode.
    Pgbouncer,
    /// One server of MariaDB.
    Mysql,
    /// Three servers of MariaDB.
    Galera,
    /// One server.
    Redis,
    /// A Redis that may lose confirmed writes of the last second.
    RedisEverysec,
    /// A Redis that occasionally loses everything.
    RedisWiped,
    /// One server.
    Valkey,
    /// A primary and two replicas that must confirm writes.
    RedisReplicas,
    /// A primary and two replicas that confirm nothing.
    RedisAsync,
    /// A primary, two replicas that must confirm writes, and sentinels that promote one of them.
    RedisSentinel,
    /// Primaries with one replica each, which must confirm writes.
    RedisCluster,
    /// Five nodes.
    Redlock,
    /// A file.
    Sqlite,
}

impl Store {
    /// Returns the title in a chart.
    pub fn title(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ZooKeeper => "ZooKeeper",
            Self::Mysql | Self::Galera => "MariaDB",
            Self::Redlock => "Redlock",
            Self::Sqlite => "SQLite",
            redis if redis.is_redis() => "Redis",
            _ => "PostgreSQL",
        }
    }

    /// Returns the cluster of docker/up, whose servers tests share.
    pub fn clustered(self) -> Option<Backend> {
        match self {
            Self::Etcd => Some(Backend::Etcd),
            Self::ZooKeeper => Some(Backend::ZooKeeper),
            _ => None,
        }
    }

    /// Returns `true` for a primary with one standby or several.
    pub fn is_pair(self) -> bool {
        use Store::{PostgresAsync, PostgresStandby, RedisAsync, RedisReplicas};
        let pair = [PostgresStandby, PostgresAsync, RedisReplicas, RedisAsync].contains(&self);
        pair || self.elects()
    }

    /// Returns `true` if another primary is elected when the primary is lost. Clients get the
    /// addresses of the servers, and do not use proxies.
    pub fn elects(self) -> bool {
        matches!(self, Self::RedisSentinel | Self::RedisCluster)
    }

    /// Returns `true` if the servers of the torture test lose no confirmed write. Then the library
    /// must report that locks are exclusive.
    pub fn is_exclusive(self) -> bool {
        ![Self::PostgresAsync, Self::Galera, Self::RedisAsync].contains(&self)
    }

    /// Returns `true` for Redis or Valkey, except as nodes of Redlock.
    pub fn is_redis(self) -> bool {
        (Self::Redis..=Self::RedisCluster).contains(&self)
    }

    /// Returns `true` if the store is queried by SQL.
    pub fn is_relational(self) -> bool {
        (Self::Postgres..=Self::Galera).contains(&self) || self == Self::Sqlite
    }

    /// Returns `true` if the store has queues, and thereby all primitives, an order and guarded
    /// writes.
    pub fn queues(self) -> bool {
        self != Self::Redlock
    }

    /// Returns `true` if clients reach the store over a network.
    pub fn is_remote(self) -> bool {
        self != Self::Sqlite
    }
}

impl From<Backend> for Store {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Etcd => Self::Etcd,
            Backend::ZooKeeper => Self::ZooKeeper,
        }
    }
}

crate::shown_by_name!(Store);

impl FromStr for Store {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        named(name)
    }
}

/// Shows an enum's value by the name that it has in JSON.
#[macro_export]
macro_rules! shown_by_name {
    ($type:ty) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }
    };
}

/// Parses an enum's value by its name in JSON. The error lists the names.
pub fn named<'de, T: Deserialize<'de>>(name: &'de str) -> Result<T, String> {
    T::deserialize(name.into_deserializer())
        .map_err(|error: serde::de::value::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let error = "consul".parse::<Store>().unwrap_err();
        let names: Vec<_> = error.split('`').skip(3).step_by(2).collect();
        assert!(names.len() == 18 && error.contains("consul"), "{error}");
        for name in names {
            let store: Store = name.parse().expect("a name");
            assert_eq!(store.to_string(), name);
            assert!(store.clustered().is_none_or(|backend| Store::from(backend) == store));
            let kinds = [store.clustered().is_some(), store.is_redis(), store.is_relational()];
            let kinds = kinds.into_iter().filter(|is| *is).count();
            assert_eq!(kinds, usize::from(store != Store::Redlock), "{store}");
        }
        for backend in Backend::BOTH {
            assert_eq!(Store::from(backend).to_string(), backend.name());
        }
    }
}
