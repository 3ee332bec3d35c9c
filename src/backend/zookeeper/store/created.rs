//! A node that was just created, and what the reply shows of its directory.

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

/// What the reply shows of the directory.
#[derive(Debug)]
pub(super) enum Directory {
    /// The directory's stat just after the node was created.
    Counted(zk::Stat),
    /// The directory was created with the node.
    Made,
    /// Nothing.
    Unknown,
}

impl Created {
    /// Returns `true` if the node was the only child of its directory just after its creation.
    ///
    /// The server applies one transaction after the other, and the members of each in their order.
    /// It takes each member's result at that point (`DataTree.processTxn`). The create adds the
    /// child to the directory and sets its pzxid. The write then returns the directory's stat, with
    /// the current number of children ([ZooKeeper 3.9.3][tree], `DataTree.java`, line 475). The
    /// pzxid and the mzxid show that this server has done so.
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

    /// Returns the position as far as the number of children determines it. `None`: the caller must
    /// list the queue.
    ///
    /// The only child is the first, and no client can join ahead of it. Otherwise the predecessor
    /// is the node with the preceding number, *if* a read finds it. Then it existed when this node
    /// was created, and no number lies between. If the read does not find it, the caller lists the
    /// queue. In that case either the predecessor has left, or the node with that number is not
    /// ours and has another name.
    pub(super) fn by_count(&self, directory: i64, join: Join) -> Option<Standing> {
        let children = self.children()?;
        if children == 1 {
            return Some(Standing::First);
        }
        // A client that would not wait does not read the predecessor: the other children may all be
        // junk.
        if join == Join::IfFree {
            return None;
        }
        // Of two children one is this node. If the other one is found, no node was ahead of that
        // one.
        let first = children == 2;
        order::just_ahead(&self.key, directory)
            .map(|key| Standing::Behind(Predecessor { entry: named(key), first, seen: false }))
    }
}
