//! Leaves a queue: deletes a node, and lets its heir know, or those who watch it, what kind of end that was.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use zookeeper_client::{self as zk, MultiWriteError};

use super::ZooKeeperStore;
use crate::{
    backend::{Leave, Moment, Withdrawn, zookeeper::node},
    error::StoreError,
    name::{Queue, Ticket},
    rig::{Bug, planted},
};

/// How long a waiter's node is kept that a stranger has written to. His write looks like a release to the next one, who looks at once whether the node is gone; that
/// it is still there tells him that it was none. A process that is stopped for longer than this just then, between the event and the look, would take the lock beside its
/// holder: so long as operators leave the nodes of waiters alone, that cannot be.
const TAINTED: Duration = Duration::from_secs(1);

impl ZooKeeperStore {
    /// Deletes a ticket's node.
    ///
    /// By its name, and as often as it takes: that was never another's and will not be (`Tags`).
    pub(super) async fn leave(&self, queue: &Queue, ticket: Ticket, leave: Leave<'_>) -> Result<Withdrawn, StoreError> {
        let client = self.client()?;
        let key = match leave.entry {
            Some(entry) => Some(Arc::clone(&entry.key)),
            None => self.find(&client, queue.dir(), ticket).await?,
        };
        let mut withdrawn = match key {
            Some(key) => {
                let withdrawn = self.delete(&client, &key, leave).await?;
                self.identity.gone(&key);
                withdrawn
            }
            None => Withdrawn { existed: false, heir: false, at: self.send(|| ()).0 },
        };
        if let Some(entry) = leave.entry.filter(|_| !withdrawn.existed && self.doubtful().contains(&ticket)) {
            // Under the name that another label gave it: see `exchange`.
            let (dir, name) = node::split(&entry.key);
            let children = self.list_now(&client, dir).await?;
            let place = node::place_of(name);
            if let Some(child) = children.iter().find(|child| place.is_some() && node::place_of(child) == place) {
                let key = format!("{dir}/{child}");
                withdrawn = self.delete(&client, &key, leave).await?;
                self.identity.gone(&key);
            }
        }
        if !withdrawn.existed && planted(Bug::ReleaseByName) {
            let children = self.list_now(&client, queue.dir()).await?;
            let first = children.iter().min_by_key(|child| node::sequence(child)).cloned().unwrap_or_default();
            let _ = client.delete(&format!("{}/{first}", queue.dir()), None).await;
        }
        self.doubtful().remove(&ticket);
        Ok(withdrawn)
    }

    /// Deletes a node in one request.
    ///
    /// A holder who has an heir in this process looks in the same transaction whether the heir's node is there; one who joined when others were there, and who may have waiters of other
    /// processes behind him, writes to his node first. Its watch is then told of the change and not of the deletion (a watch serves once): that is how
    /// a waiter knows that the one ahead was the holder.
    pub(super) async fn delete(
        &self,
        client: &zk::Client,
        key: &str,
        leave: Leave<'_>,
    ) -> Result<Withdrawn, StoreError> {
        let mut heir = leave.heir;
        let mut touch = leave.held && leave.entry.is_some_and(|entry| entry.crowded);
        // A waiter's node is as it was created, unless a stranger has written to it.
        let mut version = if leave.held { None } else { Some(0) };
        loop {
            let (at, outcome) = self.delete_once(client, key, version, heir.map(|heir| &*heir.key), touch).await?;
            match outcome {
                Ok(()) => return Ok(Withdrawn { existed: true, heir: heir.is_some(), at }),
                // The heir is gone, and the node is still there.
                Err((1, zk::Error::NoNode)) if heir.is_some() => heir = None,
                Err((_, zk::Error::NoNode)) => return Ok(Withdrawn { existed: false, heir: false, at }),
                // An operator has made it read-only.
                Err((0, zk::Error::NoAuth)) if touch && heir.is_none() => touch = false,
                Err((_, zk::Error::BadVersion)) if version.is_some() => {
                    sleep(TAINTED).await;
                    version = None;
                }
                Err((_, error)) => return Err(self.failed("delete", error)),
            }
        }
    }

    /// The outcome, with the number of the operation that failed.
    async fn delete_once(
        &self,
        client: &zk::Client,
        key: &str,
        version: Option<i32>,
        heir: Option<&str>,
        touch: bool,
    ) -> Result<(Moment, Result<(), (usize, zk::Error)>), StoreError> {
        if heir.is_none() && !touch {
            let (at, deleted) = self.send(|| client.delete(key, version));
            return Ok((at, self.reply(self.request_timeout, deleted).await?.map_err(|error| (0, error))));
        }
        let mut both = client.new_multi_writer();
        let added = match heir {
            Some(heir) => both.add_delete(key, version).and_then(|()| both.add_check_version(heir, -1)),
            None => both.add_set_data(key, &[], None).and_then(|()| both.add_delete(key, version)),
        };
        added.map_err(|error| self.failed("delete", error))?;
        let (at, committed) = self.send(|| both.commit());
        let outcome = match self.reply(self.request_timeout, committed).await? {
            Ok(_) => Ok(()),
            Err(MultiWriteError::OperationFailed { index, source }) => Err((index, source)),
            Err(MultiWriteError::RequestFailed { source }) => Err((0, source)),
        };
        Ok((at, outcome))
    }
}
