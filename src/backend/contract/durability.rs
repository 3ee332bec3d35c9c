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
    /// What it means to lose the server that decides.
    pub after_loss: AfterLoss,
    /// What stands behind that and could be changed, in words for those who look after the store.
    pub reasons: Vec<String>,
}

/// What it means to lose the server that decides who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterLoss {
    /// Another one goes on, and has all that was confirmed.
    GoesOn,
    /// Nothing is granted until it is back, with all that was confirmed.
    Waits,
    /// What was confirmed last may be gone, or all of it.
    Forgets,
}

impl Durability {
    /// Of a store in which a majority of so many members decides, each of which keeps what it has
    /// confirmed.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(crate) fn majority(members: usize) -> Self {
        let mut durability =
            Self { exclusive: true, after_loss: AfterLoss::GoesOn, reasons: Vec::new() };
        if members < 3 {
            durability.after_loss = AfterLoss::Waits;
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
        for (members, after_loss) in
            [(1, AfterLoss::Waits), (2, AfterLoss::Waits), (3, AfterLoss::GoesOn)]
        {
            let durability = Durability::majority(members);
            assert!(durability.exclusive);
            assert_eq!(durability.after_loss, after_loss, "{members}");
            assert_eq!(durability.reasons.is_empty(), after_loss == AfterLoss::GoesOn);
        }
    }
}
