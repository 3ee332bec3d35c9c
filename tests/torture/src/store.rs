//! The stores that are tortured.

use std::{fmt, str::FromStr};

use distlock_testkit::backend::Backend;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Store {
    Etcd,
    ZooKeeper,
    Postgres,
    /// With a standby that the primary waits for.
    #[serde(rename = "postgres-standby")]
    Standby,
    /// With a standby that may lag behind.
    #[serde(rename = "postgres-async")]
    Asynchronous,
    Mysql,
    /// Three servers of MariaDB.
    Galera,
    Sqlite,
    Redis,
    /// A Redis that may lose what it has confirmed in the last second.
    #[serde(rename = "redis-everysec")]
    Everysec,
    /// A Redis that loses everything now and then.
    #[serde(rename = "redis-wiped")]
    Wiped,
    Valkey,
    /// A primary and two replicas, that are waited for.
    #[serde(rename = "redis-replicas")]
    Replicas,
    /// The same, and nobody waits for them.
    #[serde(rename = "redis-async")]
    Lagging,
    /// The same, and sentinels that promote one of them.
    #[serde(rename = "redis-sentinel")]
    Sentinels,
    /// Primaries with a replica each, which is waited for.
    #[serde(rename = "redis-cluster")]
    Cluster,
    /// Five nodes.
    Redlock,
}

impl Store {
    pub(crate) const ALL: [Self; 17] = [
        Self::Etcd,
        Self::ZooKeeper,
        Self::Postgres,
        Self::Standby,
        Self::Asynchronous,
        Self::Mysql,
        Self::Galera,
        Self::Sqlite,
        Self::Redis,
        Self::Everysec,
        Self::Wiped,
        Self::Valkey,
        Self::Replicas,
        Self::Lagging,
        Self::Sentinels,
        Self::Cluster,
        Self::Redlock,
    ];

    /// What it is called on a command line and in a report, and its server in a history.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ZooKeeper => "zookeeper",
            Self::Postgres => "postgres",
            Self::Standby => "postgres-standby",
            Self::Asynchronous => "postgres-async",
            Self::Mysql => "mysql",
            Self::Galera => "galera",
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
            Self::Everysec => "redis-everysec",
            Self::Wiped => "redis-wiped",
            Self::Valkey => "valkey",
            Self::Replicas => "redis-replicas",
            Self::Lagging => "redis-async",
            Self::Sentinels => "redis-sentinel",
            Self::Cluster => "redis-cluster",
            Self::Redlock => "redlock",
        }
    }

    /// The one of docker/up, whose servers a run shares with others.
    pub(crate) fn clustered(self) -> Option<Backend> {
        match self {
            Self::Etcd => Some(Backend::Etcd),
            Self::ZooKeeper => Some(Backend::ZooKeeper),
            _ => None,
        }
    }

    /// Whether it is a primary with a standby, or several.
    pub(crate) fn is_pair(self) -> bool {
        let pair =
            matches!(self, Self::Standby | Self::Asynchronous | Self::Replicas | Self::Lagging);
        pair || self.elects()
    }

    /// Whether another primary is elected when the one is lost. Those who lock are told where it
    /// is, and go there by no proxy.
    pub(crate) fn elects(self) -> bool {
        matches!(self, Self::Sentinels | Self::Cluster)
    }

    /// Whether it is Redis or Valkey, and not several nodes.
    pub(crate) fn is_redis(self) -> bool {
        let one = matches!(self, Self::Redis | Self::Everysec | Self::Wiped | Self::Valkey);
        one || matches!(self, Self::Replicas | Self::Lagging) || self.elects()
    }

    /// Whether it is queried by SQL.
    pub(crate) fn is_relational(self) -> bool {
        self.clustered().is_none() && !self.is_redis() && self != Self::Redlock
    }

    /// Whether there are queues, and what takes them: every primitive, an order, and writes that
    /// are guarded.
    pub(crate) fn queues(self) -> bool {
        self != Self::Redlock
    }

    /// How many TTLs go by, at least, from one fault of its servers to the next. Redlock promises
    /// nothing where a majority of the nodes is set back unseen within one.
    pub(crate) fn rest(self) -> f64 {
        if self == Self::Redlock { 2.0 } else { 0.0 }
    }

    /// Whether there is a network between it and its clients.
    pub(crate) fn is_remote(self) -> bool {
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

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Store {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|store| store.name() == name);
        found.ok_or_else(|| {
            format!("no store {name:?}; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for store in Store::ALL {
            assert_eq!(store.to_string().parse(), Ok(store));
            // As a history has it.
            assert_eq!(serde_json::to_value(store).unwrap(), store.name());
            assert!(store.clustered().is_none_or(|backend| Store::from(backend) == store));
        }
        assert!("consul".parse::<Store>().is_err_and(|error| error.contains("sqlite")));
    }
}
