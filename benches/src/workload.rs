//! The workloads of the benchmark.

use serde::{Deserialize, Serialize};

use crate::backend::Backend;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Workload {
    /// One task, one name.
    W1,
    /// 64 tasks, 64 names, one client.
    W2,
    /// Contenders of one name.
    W3,
    /// A long queue, drained.
    W4,
    /// W1 and W3 through a proxy that delays.
    W5,
    /// Many held locks.
    W6,
    /// W1 and W3 on three nodes.
    W7,
    /// Waiters that wait, and another one that joins behind them.
    W8,
    /// Very many clients of one name, which release at once.
    W9,
    /// Clients that contend for one name and hold it for a while, by waiting or by polling.
    WX,
    /// Primitives other than the mutex, compared with those of clients in other languages.
    WP,
}

impl Workload {
    pub(crate) const ALL: [Self; 11] = [
        Self::W1,
        Self::W2,
        Self::W3,
        Self::W4,
        Self::W5,
        Self::W6,
        Self::W7,
        Self::W8,
        Self::W9,
        Self::WX,
        Self::WP,
    ];

    /// Returns `true` if it is measured on this store.
    pub(crate) fn is_for(self, backend: Backend) -> bool {
        match self {
            Self::W1 | Self::W2 | Self::W3 => true,
            Self::WX => backend != Backend::Redlock,
            Self::W4 => !matches!(backend, Backend::Redis | Backend::Redlock | Backend::Sqlite),
            Self::W5 => backend != Backend::Sqlite,
            Self::W6 | Self::W7 | Self::W9 | Self::WP => {
                matches!(backend, Backend::Etcd | Backend::ZooKeeper)
            }
            Self::W8 => matches!(backend, Backend::Postgres | Backend::Mysql),
        }
    }

    /// Returns `true` if it is measured only on request.
    pub(crate) fn is_aside(self) -> bool {
        matches!(self, Self::WX | Self::WP)
    }

    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::W1 => "one task, one name",
            Self::W2 => "64 tasks, 64 names, one client",
            Self::W3 => "N contenders of one name",
            Self::W4 => "N waiters of one name in one process, drained",
            Self::W5 => "through a proxy that adds 5 ms each way",
            Self::W6 => "N locks of different names held by one client",
            Self::W7 => "three nodes",
            Self::W8 => "N waiters of one name in one process; then one more joins and leaves",
            Self::W9 => "N clients of one name, a session each",
            Self::WP => "other primitives, N contenders of one name",
            Self::WX => "N clients of one name, each of which holds it for a while",
        }
    }
}
