//! The stores that have servers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{framing::Framing, servers};

/// A store that has servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// etcd.
    Etcd,
    /// ZooKeeper.
    ZooKeeper,
}

impl Backend {
    /// All variants.
    pub const BOTH: [Self; 2] = [Self::Etcd, Self::ZooKeeper];

    /// Returns the name on a command line and in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ZooKeeper => "zookeeper",
        }
    }

    /// Returns the scheme of its URLs, which is also the prefix of its servers' names.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ZooKeeper => "zk",
        }
    }

    /// Returns how its servers' bytes are split into packets.
    pub fn framing(self) -> Framing {
        match self {
            Self::Etcd => Framing::Http2,
            Self::ZooKeeper => Framing::Jute,
        }
    }

    /// Returns the URL of the cluster: from the environment, else that of `docker/up`.
    pub fn url(self) -> String {
        match self {
            Self::Etcd => servers::url(
                "DISTLOCK_ETCD_URL",
                "etcd://127.0.0.1:23791,127.0.0.1:23792,127.0.0.1:23793",
            ),
            Self::ZooKeeper => servers::url(
                "DISTLOCK_ZK_URL",
                "zk://127.0.0.1:21811,127.0.0.1:21812,127.0.0.1:21813",
            ),
        }
    }

    /// Returns the URL of a server with users and permissions.
    pub fn url_with_users(self) -> String {
        match self {
            Self::Etcd => servers::url("DISTLOCK_ETCD_AUTH_URL", "etcd://127.0.0.1:23795"),
            Self::ZooKeeper => servers::url("DISTLOCK_ZK_AUTH_URL", "zk://127.0.0.1:21814"),
        }
    }

    /// Returns the URL of a server that requires TLS.
    pub fn url_with_tls(self) -> String {
        match self {
            Self::Etcd => servers::url("DISTLOCK_ETCD_TLS_URL", "etcd://127.0.0.1:23794"),
            Self::ZooKeeper => servers::url("DISTLOCK_ZK_TLS_URL", "zk://127.0.0.1:21815"),
        }
    }

    /// Returns the URL of these servers.
    pub fn url_of<T: fmt::Display>(self, servers: impl IntoIterator<Item = T>) -> String {
        let servers: Vec<_> = servers.into_iter().map(|server| server.to_string()).collect();
        format!("{}://{}", self.scheme(), servers.join(","))
    }

    /// Returns the store of a URL, and its comma-separated servers.
    pub fn split(url: &str) -> Option<(Self, &str)> {
        let (scheme, servers) = url.split_once("://")?;
        let backend = Self::BOTH.into_iter().find(|backend| backend.scheme() == scheme)?;
        Some((backend, servers))
    }

    /// Returns the names of the cluster's servers in docker/'s scripts.
    pub fn services(self) -> [&'static str; 3] {
        match self {
            Self::Etcd => ["etcd1", "etcd2", "etcd3"],
            Self::ZooKeeper => ["zk1", "zk2", "zk3"],
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
        let found = Self::BOTH.into_iter().find(|backend| backend.name() == name);
        found.ok_or_else(|| format!("no backend {name:?}: etcd or zookeeper"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_urls_are_read_back() {
        for backend in Backend::BOTH {
            assert_eq!(backend.to_string().parse(), Ok(backend));
            let url = backend.url_of(["a:1", "b:2"]);
            assert_eq!(Backend::split(&url), Some((backend, "a:1,b:2")));
        }
        assert!("redis".parse::<Backend>().is_err());
        assert_eq!(Backend::split("memory://etcd"), None);
    }
}
