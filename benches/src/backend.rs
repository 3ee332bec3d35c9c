//! The stores that are measured, and where they are.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Backend {
    Etcd,
    ZooKeeper,
    Postgres,
    Mysql,
    Redis,
    /// Several servers of it that know nothing of each other.
    Redlock,
    Sqlite,
}

impl Backend {
    pub(crate) const ALL: [Self; 7] = [
        Self::Etcd,
        Self::ZooKeeper,
        Self::Postgres,
        Self::Mysql,
        Self::Redis,
        Self::Redlock,
        Self::Sqlite,
    ];

    /// What it is called on a command line and in a report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ZooKeeper => "zookeeper",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
            Self::Redlock => "redlock",
            Self::Sqlite => "sqlite",
        }
    }

    /// What it is called in a picture.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ZooKeeper => "ZooKeeper",
            Self::Postgres => "PostgreSQL",
            Self::Mysql => "MariaDB",
            Self::Redis => "Redis",
            Self::Redlock => "Redlock",
            Self::Sqlite => "SQLite",
        }
    }

    /// Whether it is asked in SQL.
    pub(crate) fn is_sql(self) -> bool {
        matches!(self, Self::Postgres | Self::Mysql | Self::Sqlite)
    }

    /// The URL of these servers; a file has its path for an address.
    pub(crate) fn url_of(self, servers: &[String]) -> String {
        self.url_as(self.owner(), servers)
    }

    /// The same for a user who has their name for a password.
    pub(crate) fn url_as(self, user: &str, servers: &[String]) -> String {
        let servers = servers.join(",");
        match self {
            Self::Etcd => format!("etcd://{servers}"),
            Self::ZooKeeper => format!("zk://{servers}"),
            Self::Postgres => format!("postgres://{user}:{user}@{servers}/postgres"),
            Self::Mysql => format!("mysql://{user}:{user}@{servers}/distlock"),
            Self::Redis => format!("redis://{user}:root@{servers}"),
            Self::Redlock => format!("redlock://{user}:root@{servers}"),
            Self::Sqlite => format!("sqlite://{servers}"),
        }
    }

    /// The superuser that docker/single.sh gives its servers.
    pub(crate) fn owner(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis | Self::Redlock => "default",
            _ => "root",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|backend| backend.name() == name);
        found.ok_or_else(|| {
            format!(
                "no backend {name:?}: etcd, zookeeper, postgres, mysql, redis, redlock or sqlite"
            )
        })
    }
}
