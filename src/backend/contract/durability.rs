//! What a store promises with its current settings.

/// Reports what a store promises with its current settings.
///
/// [`Client::durability`](crate::Client::durability) returns this report, and bases it on what the
/// servers report. The section "What each setup promises" of [Guarantees] lists all cases.
///
/// The report covers the failure of servers. [Operations] documents the other conditions. Clocks
/// must run at about the same speed, no old backup may be restored while clients are working, and
/// an old primary must not continue after a failover.
///
/// etcd and ZooKeeper do not report whether their members sync confirmed writes to disk. The report
/// assumes that they do, without `--unsafe-no-fsync` and `forceSync=no`.
///
/// [Guarantees]: https://github.com/distlock/distlock/blob/main/docs/design/guarantees.md
/// [Operations]: https://github.com/distlock/distlock/blob/main/docs/ops/README.md
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Durability {
    /// `true` if no failure of a server makes two guards of one lock valid at once.
    ///
    /// If it is `false`, [`reasons`](Self::reasons) states why. The value depends on the store:
    ///
    /// - etcd, ZooKeeper, SQLite and memory: always `true`.
    /// - PostgreSQL: `true` if `fsync` and `full_page_writes` are on, and every commit waits for a
    ///   synchronous standby if there are standbys. The last of the reasons then states how to fail
    ///   over to a standby.
    /// - MySQL and MariaDB: `true` if every commit is flushed, `innodb_doublewrite` is on, and no
    ///   other server can take over: no replica, no Galera cluster and no replication group. MySQL
    ///   with a binary log does not report its replicas, and counts as having some.
    /// - Redis and Valkey: `true` if the server evicts no locks, the client waits for all replicas,
    ///   and `appendonly` is on with `appendfsync always`, or with `everysec` from version 7.2 on.
    ///   With `everysec`, a server that has crashed grants no lock for the longest TTL. A setting
    ///   that the server does not report counts as unsafe.
    /// - Redis with a bridge: always `false`.
    /// - Redlock: always `true`, but only under the condition that the first of the reasons states.
    ///   No node that has the lock may be emptied, nor have its clock changed unnoticed, within one
    ///   TTL.
    pub exclusive: bool,
    /// What happens to locks when the deciding server is lost.
    pub failover: FailoverBehavior,
    /// Explanations for operators, and the settings that would change the result.
    pub reasons: Vec<String>,
}

/// Reports what happens to locks when the deciding server is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailoverBehavior {
    /// Another server takes over with all confirmed grants.
    Continues,
    /// No lock is granted until the server is back with all confirmed grants.
    Blocks,
    /// The last confirmed grants, or all of them, may be missing.
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
                "the cluster has only {members} of the 3 voting members that it needs to survive \
                 the loss of one"
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
