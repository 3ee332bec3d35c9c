//! A node that was just created, and what the reply tells of its directory.

use std::sync::Arc;

use zookeeper_client as zk;

use super::directory::named;
use crate::backend::{Join, Predecessor, SequencePoint, Standing, zookeeper::order};

/// A node that was just created.
#[derive(Debug)]
pub(super) struct Created {
    pub(super) key: Arc<str>,
    pub(super) at: SequencePoint,
    pub(super) stat: zk::Stat,
    pub(super) directory: Directory,
}

/// What the reply tells of the directory.
#[derive(Debug)]
pub(super) enum Directory {
    /// How it was just after the node was created.
    Counted(zk::Stat),
    /// It was created with the node.
    Made,
    /// Nothing.
    Unknown,
}

impl Created {
    /// Whether it was the only child of its directory just after it was created.
    ///
    /// The members of a transaction are applied in their order, one transaction after the other,
    /// and each result is taken then (`DataTree.processTxn`). The create puts the child into the
    /// directory and sets its pzxid; the write takes the directory's stat, with the number of
    /// children that it has by then ([ZooKeeper 3.9.3][tree], `DataTree.java`, line 475).
    /// By the pzxid and the mzxid it is seen that this server has done so.
    ///
    /// [tree]: https://github.com/apache/zookeeper/tree/release-3.9.3/zookeeper-server
    pub(super) fn is_alone(&self) -> bool {
        self.children() == Some(1)
    }

    fn children(&self) -> Option<i32> {
        match &self.directory {
            Directory::Counted(stat)
                if stat.pzxid == self.stat.czxid && stat.mzxid == self.stat.czxid =>
            {
                Some(stat.num_children)
            }
            Directory::Counted(_) | Directory::Unknown => None,
            Directory::Made => Some(1),
        }
    }

    /// Where it stands, as far as the number of children tells. `None`: the list has to.
    ///
    /// The only child is the first, and nobody can join ahead of it. Else the one just
    /// ahead is the one of the number before, *if* it is found there when it is looked at: so it
    /// was there when this one was created, and no number lies between. If it is not (it has left,
    /// or that number's node is another client's, with a name of another kind, or no waiter's at
    /// all), the one that looks is told so and takes the list.
    pub(super) fn by_count(&self, directory: i64, join: Join) -> Option<Standing> {
        let children = self.children()?;
        if children == 1 {
            return Some(Standing::First);
        }
        // Who would not wait does not look: then there may be nothing but junk.
        if join == Join::IfFree {
            return None;
        }
        // Of two children one is this: if that one is found, then it is the other, and had nobody
        // ahead.
        let first = children == 2;
        order::just_ahead(&self.key, directory)
            .map(|key| Standing::Behind(Predecessor { entry: named(key), first, seen: false }))
    }
}
