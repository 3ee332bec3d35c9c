//! Leaves a queue: deletes a node, and leaves a release marker if it was a holder's.

use std::sync::Arc;

use zookeeper_client as zk;

use super::{Refusal, ZooKeeperStore};
use crate::backend::{
    Joiner, LeaveOutcome, LeaveRequest, Result, SequencePoint, StoreError, zookeeper::names,
};

impl ZooKeeperStore {
    /// Deletes a ticket's node.
    ///
    /// It deletes by name, as often as necessary: the name was never another node's and never will
    /// be (`Tags`).
    pub(super) async fn leave(
        &self,
        Joiner { queue, ticket }: Joiner<'_>,
        leave: LeaveRequest<'_>,
    ) -> Result<LeaveOutcome> {
        let key = match leave.entry {
            Some(entry) => Some(Arc::clone(&entry.key)),
            None => self.find(queue.dir(), ticket).await?,
        };
        let mut withdrawn = match key {
            Some(key) => {
                let withdrawn = self.delete(&key, leave).await?;
                self.identity.gone(&key);
                withdrawn
            }
            None => LeaveOutcome { existed: false, successor: false, at: self.send(|| ()).0 },
        };
        let renamed = self.renamed.lock().contains(&ticket);
        if let Some(entry) = leave.entry.filter(|_| !withdrawn.existed && renamed) {
            // The node may have the name of another label: see `relabel`.
            let (dir, name) = names::split(&entry.key);
            let children = self.list_now(dir).await?;
            let place = names::place_of(name);
            if let Some(child) =
                children.iter().find(|child| place.is_some() && names::place_of(child) == place)
            {
                let key = format!("{dir}/{child}");
                withdrawn = self.delete(&key, leave).await?;
                self.identity.gone(&key);
            }
        }
        self.renamed.lock().remove(&ticket);
        self.doubtful().remove(&ticket);
        Ok(withdrawn)
    }

    /// Deletes a node in one request.
    ///
    /// If a holder has a successor in this process, the same transaction checks that the
    /// successor's node exists. A holder that joined when others were in the queue may have waiters
    /// of other processes behind it. So it writes its node's name into the directory in the same
    /// transaction, as a release marker. A client that finds this name knows that the owner deleted
    /// the node, as a holder. Nothing that happens to the node itself could prove that: any client
    /// may write to it, and a waiter that gives up deletes its own node as well.
    pub(super) async fn delete(&self, key: &str, leave: LeaveRequest<'_>) -> Result<LeaveOutcome> {
        let mut successor = leave.successor;
        let crowded = leave.entry.is_some_and(|entry| entry.crowded);
        let mut mark = crowded && names::is_marked(key) && leave.held;
        loop {
            let beside = successor.map(|successor| &*successor.key);
            let (at, outcome) = self.delete_once(key, beside, mark).await?;
            match outcome {
                Ok(()) => {
                    return Ok(LeaveOutcome { existed: true, successor: successor.is_some(), at });
                }
                // The successor is gone or unreadable, and the node still exists.
                Err((Some(1), error)) if successor.is_some() && self.is_definite(&error) => {
                    successor = None
                }
                Err((_, zk::Error::NoNode)) => {
                    return Ok(LeaveOutcome { existed: false, successor: false, at });
                }
                // The marker is only a hint. Rights or a quota that forbid it need not forbid the
                // release.
                Err((None | Some(0), error))
                    if mark && successor.is_none() && self.is_definite(&error) =>
                {
                    mark = false
                }
                Err((_, error)) => return Err(self.failed("deleting a node", error)),
            }
        }
    }

    /// Returns `true` if a request with this error was not applied, and would fail again.
    fn is_definite(&self, error: &zk::Error) -> bool {
        let error = self.failed("deleting a node", error.clone());
        matches!(error, StoreError::Denied(_) | StoreError::Fatal { .. })
    }

    async fn delete_once(
        &self,
        key: &str,
        successor: Option<&str>,
        mark: bool,
    ) -> Result<(SequencePoint, Result<(), Refusal>)> {
        let client = self.client()?;
        if successor.is_none() && !mark {
            let (at, deleted) = self.send(|| client.delete(key, None));
            return Ok((at, self.reply(deleted).await?.map_err(|error| (None, error))));
        }
        let mut both = client.new_multi_writer();
        let (dir, name) = names::split(key);
        let added = match successor {
            Some(successor) => {
                both.add_delete(key, None).and_then(|()| both.add_check_version(successor, -1))
            }
            None => {
                self.tags.mark(dir, name);
                both.add_set_data(dir, name.as_bytes(), None)
                    .and_then(|()| both.add_delete(key, None))
            }
        };
        added.map_err(|error| self.failed("deleting a node", error))?;
        let (at, committed) = self.transact(both).await?;
        Ok((at, committed.map(drop)))
    }
}
