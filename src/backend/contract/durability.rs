//! What a store promises with its current settings.

/// Reports what a store promises with its current settings.
///
/// [`Client::durability`](crate::Client::durability) builds this report from the servers' own
/// information. The section "What each setup promises" in [Guarantees] lists all cases.
///
/// The report covers only server failures. Exclusive locks also require that clocks run at about
/// the same speed, that no old backup is restored while clients are running, and that an old
/// primary stops after a failover. The page "After a failover or a restore", which [Operations]
/// lists, documents failovers and restored backups.
///
/// etcd and ZooKeeper do not report whether their members sync confirmed writes to disk. The report
/// assumes that they do: neither `--unsafe-no-fsync` nor `forceSync=no` may be set.
///
/// [Guarantees]: https://github.com/distlock/distlock/blob/main/docs/design/guarantees.md
/// [Operations]: https://github.com/distlock/distlock/blob/main/docs/ops/README.md
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Durability {
    /// `true` if no server failure can make two guards of one mutex valid at once.
    ///
    /// If the value is `false`, [`reasons`](Self::reasons) explains why. The value depends on the
    /// store:
    ///
    /// - etcd, ZooKeeper, SQLite and memory: always `true`.
    /// - PostgreSQL: `true` if `fsync` and `full_page_writes` are on. If there are standbys, every
    ///   commit must also wait for a synchronous one, and the last reason describes how to fail
    ///   over.
    /// - MySQL and MariaDB: `true` if every commit is flushed, `innodb_doublewrite` is on, and no
    ///   other server can take over: there is no replica, Galera cluster or replication group. A
    ///   MySQL server with a binary log does not report its replicas, so the report assumes that
    ///   there are some.
    /// - Redis and Valkey: `true` if the server cannot evict locks, every write waits for all
    ///   replicas, and `appendonly` is on. In addition, `appendfsync` must be `always` with
    ///   `no-appendfsync-on-rewrite no`, or `everysec` on version 7.2 or later. With `everysec`,
    ///   the server grants no lock after a crash for 1.1 times the longest TTL. A setting that the
    ///   server does not report counts as unsafe.
    /// - Redis with a bridge: always `false`.
    /// - Redlock: always `true`, under the condition that the first reason states. No node that
    ///   stores the lock may be flushed, or have its clock changed unnoticed, within one TTL.
    pub exclusive: bool,
    /// What happens to locks when the primary, leader or only server is lost.
    pub failover: FailoverBehavior,
    /// Explanations for operators, with the settings that would change the result.
    pub reasons: Vec<String>,
}

/// Reports what happens to locks when the primary, leader or only server is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailoverBehavior {
    /// Another server takes over with all confirmed grants.
    Continues,
    /// No lock is granted until the server is back with all confirmed grants.
    ///
    /// On SQLite, a reboot of the host frees all locks.
    Blocks,
    /// The last confirmed grants, or even all grants, may be lost.
    MayLoseGrants,
}

impl Durability {
    /// Returns the durability of a store in which a majority of this many members decides. Each
    /// member keeps what it has confirmed.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(crate) fn majority(members: usize) -> Self {
        let mut durability =
            Self { exclusive: true, failover: FailoverBehavior::Continues, reasons: Vec::new() };
        if members < 3 {
            durability.failover = FailoverBehavior::Blocks;
            durability.reasons.push(format!(
                "the number of voting members is {members}: the cluster needs at least 3 to \
                 survive the loss of one"
            ));
        }
        durability
    }
}

#[cfg(test)]
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod tests {
    use super::*;

    #[test]
    fn three_members_continue_after_one_failure() {
        for (members, failover) in [
            (1, FailoverBehavior::Blocks),
            (2, FailoverBehavior::Blocks),
            (3, FailoverBehavior::Continues),
        ] {
            let durability = Durability::majority(members);
            assert!(durability.exclusive);
            assert_eq!(durability.failover, failover, "{members}");
            assert_eq!(durability.reasons.is_empty(), failover == FailoverBehavior::Continues);
        }
    }
}
