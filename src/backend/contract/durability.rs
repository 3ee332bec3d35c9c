//! What a store promises as it is configured now.

/// What the store promises as it is configured now, by its own word:
/// [`Client::durability`](crate::Client::durability).
///
/// It tells of what is lost with servers and what is not. What every store is asked for besides
/// (that its clock runs about as fast as the others', that nobody restores an old backup under
/// those who work, that a primary which was given up does not go on) is told in
/// `docs/operations.md`.
///
/// Neither etcd nor ZooKeeper tells whether its members bring what they confirm to the disk: that
/// they do is taken for granted (`--unsafe-no-fsync`, `forceSync=no`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Durability {
    /// While a guard is valid nobody else is given its lock, whatever becomes of servers.
    pub exclusive: bool,
    /// What happens to locks when the deciding server is lost.
    pub failover: FailoverBehavior,
    /// What stands behind that and could be changed, in words for those who look after the store.
    pub reasons: Vec<String>,
}

/// Tells what happens to locks when the deciding server is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailoverBehavior {
    /// Another server takes over, with all confirmed grants.
    Continues,
    /// No lock is granted until the server is back, with all confirmed grants.
    Blocks,
    /// The last confirmed grants may be missing, or all of them.
    MayLoseGrants,
}

impl Durability {
    /// Of a store in which a majority of so many members decides, each of which keeps what it has
    /// confirmed.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(crate) fn majority(members: usize) -> Self {
        let mut durability =
            Self { exclusive: true, failover: FailoverBehavior::Continues, reasons: Vec::new() };
        if members < 3 {
            durability.failover = FailoverBehavior::Blocks;
            durability.reasons.push(format!(
                "{members} of its members may vote, and none of them may be lost: three are the \
                 fewest of which one may"
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
    fn three_members_outlive_one() {
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
