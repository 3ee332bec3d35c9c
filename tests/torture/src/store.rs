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
}

impl Store {
    pub(crate) const ALL: [Self; 8] = [
        Self::Etcd,
        Self::ZooKeeper,
        Self::Postgres,
        Self::Standby,
        Self::Asynchronous,
        Self::Mysql,
        Self::Galera,
        Self::Sqlite,
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

    /// Whether it is a primary with a standby.
    pub(crate) fn is_pair(self) -> bool {
        matches!(self, Self::Standby | Self::Asynchronous)
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
        assert!("redis".parse::<Store>().is_err_and(|error| error.contains("sqlite")));
    }
}
