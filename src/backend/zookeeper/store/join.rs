//! Joins a queue: creates a node, and learns from the same request which node is ahead.

use std::sync::Arc;

use zookeeper_client::{self as zk, CreateMode, MultiWriteResult};

use super::{
    Refusal, ZooKeeperStore,
    created::{Created, Directory},
    directory::{named, revision},
};
use crate::{
    backend::{
        Entry, Join, Joined, Joiner, LeaveRequest, Predecessor, Queue, Result, Standing,
        StoreError, Ticket,
        zookeeper::{
            names::{self, Tag},
            renewal::renewed_for,
        },
    },
    lost::LostReason,
};

/// How often to try to create a node in a directory that is created and removed concurrently. The
/// directory is a container, which the server removes when it is empty.
const ATTEMPTS: usize = 8;

/// How to create a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// With the directory's children counted in the same transaction.
    Counted,
    /// With the directory, which is known to be missing, in the same transaction.
    WithDirectory,
    /// Without another operation. The queue is listed afterwards.
    Alone,
}

impl ZooKeeperStore {
    pub(super) async fn join(
        &self,
        Joiner { queue, ticket }: Joiner<'_>,
        value: &[u8],
        join: Join,
    ) -> Result<Joined> {
        if self.doubtful().contains(&ticket) {
            let joined = self.rejoin(queue, ticket).await?;
            self.doubtful().remove(&ticket);
            if let Some(joined) = joined {
                return Ok(joined);
            }
        }
        if join == Join::IfFree && self.is_occupied(queue).await? {
            return Ok(Joined::Occupied);
        }
        let dir = queue.dir();
        let turn = self.tags.get(dir).is_none().then(|| self.tags.turn(dir));
        // However long the first caller takes, each caller has its own timeout.
        let _turn = match &turn {
            Some(turn) => self.reply(turn.lock()).await.ok(),
            None => None,
        }
        // The tag is known by now, so the next caller may continue.
        .filter(|_| self.tags.get(dir).is_none());
        let data = names::data(ticket, value);
        let (mut way, mut taken) = (Way::Counted, false);
        for _ in 0..ATTEMPTS {
            let tag = match self.tags.get(dir) {
                Some(czxid) if czxid > 0 && way == Way::Counted && !taken => Tag::Directory(czxid),
                // The tag is not derived from the ticket. An earlier request may still be served:
                // after an operator has deleted this request's node, it would create another node
                // of the same name.
                _ => Tag::random(),
            };
            self.doubtful().insert(ticket);
            let prefix = tag.prefix(dir, queue.label());
            let refusal = match self.create(dir, &prefix, &data, way).await? {
                Ok(created) => {
                    taken |= names::is_worn(&created.key);
                    // If this fails, the node exists. The next attempt finds it, or the withdrawal
                    // of the ticket does.
                    let joined = self.settle(created, join).await;
                    let joined = joined.map_err(StoreError::in_doubt)?;
                    self.doubtful().remove(&ticket);
                    match joined {
                        Some(joined) => return Ok(joined),
                        None => continue,
                    }
                }
                Err(refusal) => refusal,
            };
            // Nothing was created, so there is nothing to search for, whatever the next step
            // returns.
            self.doubtful().remove(&ticket);
            match refusal {
                (_, zk::Error::NoNode) if way != Way::WithDirectory => way = Way::WithDirectory,
                // The namespace is also missing.
                (_, zk::Error::NoNode) => {
                    let (namespace, _) = names::split(dir);
                    let directory = CreateMode::Container.with_acls(self.acls());
                    self.ask("creating a directory", self.client()?.mkdir(namespace, &directory))
                        .await?;
                }
                // Another client has created the directory.
                (_, zk::Error::NodeExists) if way == Way::WithDirectory => way = Way::Counted,
                // An operator has created a node with the next number, or the counter is exhausted.
                (_, zk::Error::NodeExists) if !taken => taken = true,
                // The write to the directory only serves its reply. An operator or a quota forbids
                // it.
                (Some(1), zk::Error::NoAuth | zk::Error::QuotaExceeded) if way == Way::Counted => {
                    way = Way::Alone
                }
                (_, error) => return Err(self.failed("creating a node", error)),
            }
        }
        Err(StoreError::Unavailable(
            format!("other clients kept removing and creating {dir}").into(),
        ))
    }

    /// Creates a node. An error leaves open whether the node was created; a refusal means that it
    /// was not.
    ///
    /// A list after it would be a second request. It would grow with the queue and mostly wait for
    /// the reply to the first one, because the crate does not set `TCP_NODELAY`. A read cannot be
    /// part of a transaction, but a write to the directory can, and its result has the number of
    /// children.
    async fn create(
        &self,
        dir: &str,
        prefix: &str,
        data: &[u8],
        way: Way,
    ) -> Result<Result<Created, Refusal>> {
        let node = CreateMode::EphemeralSequential.with_acls(self.acls());
        let directory = CreateMode::Container.with_acls(self.acls());
        let client = self.client()?;
        let mut both = client.new_multi_writer();
        let added = match way {
            Way::Alone => {
                let (at, created) = self.send(|| client.create(prefix, data, &node));
                return match self.reply(created).await? {
                    Ok((stat, sequence)) => {
                        let key = format!("{prefix}{sequence}").into();
                        Ok(Ok(Created { key, at, stat, directory: Directory::Unknown }))
                    }
                    Err(error) => self.refused((None, error)),
                };
            }
            Way::Counted => {
                // The known release marker is written again: see `leave.rs`.
                let mark = self.tags.marked(dir);
                let mark = mark.as_deref().unwrap_or_default().as_bytes();
                both.add_create(prefix, data, &node)
                    .and_then(|()| both.add_set_data(dir, mark, None))
            }
            Way::WithDirectory => both
                .add_create(dir, &[], &directory)
                .and_then(|()| both.add_create(prefix, data, &node)),
        };
        added.map_err(|error| self.failed("creating a node", error))?;
        let (at, committed) = self.transact(both).await?;
        let results = match committed {
            Ok(results) => results,
            Err(refusal) => return self.refused(refusal),
        };
        let (mut created, mut directory) = (None, Directory::Made);
        for result in results {
            match result {
                // The last one.
                MultiWriteResult::Create { path, stat } => created = Some((path, stat)),
                MultiWriteResult::SetData { stat } => directory = Directory::Counted(stat),
                _ => {}
            }
        }
        let Some((path, stat)) = created else {
            return Err(StoreError::Unknown("malformed reply: no new node".into()));
        };
        Ok(Ok(Created { key: path.into(), at, stat, directory }))
    }

    /// Returns a refusal only if the request was certainly not applied.
    fn refused<T>(&self, (operation, error): Refusal) -> Result<Result<T, Refusal>> {
        match self.failed("creating a node", error.clone()) {
            unknown @ (StoreError::Unknown(_) | StoreError::SessionGone(_)) => Err(unknown),
            _ => Ok(Err((operation, error))),
        }
    }

    /// Returns the position of the new node; `None` if the node had to be deleted.
    async fn settle(&self, mut created: Created, join: Join) -> Result<Option<Joined>> {
        let key = Arc::clone(&created.key);
        // Servers have omitted the stat from a transaction's results
        // (https://issues.apache.org/jira/browse/ZOOKEEPER-4026, -4667).
        if created.stat.czxid <= 0 {
            created.stat = self.ask("reading a node", self.client()?.get_data(&key)).await?.1;
        }
        if !self.identity.owns(&created.stat) {
            return Err(StoreError::SessionGone(LostReason::SessionExpired));
        }
        let czxid = match &created.directory {
            Directory::Counted(stat) => stat.czxid.max(0),
            // Created by the same transaction.
            Directory::Made => created.stat.czxid,
            Directory::Unknown => 0,
        };
        // If the numbers are exhausted, the tag makes no name unique.
        self.tags.learn(names::split(&key).0, if names::is_worn(&key) { 0 } else { czxid });
        if !names::is_unique(&key, czxid) {
            // The name is for a former directory, or another node has had it or will have it. The
            // node holds no place yet.
            self.delete(&key, LeaveRequest::default()).await?;
            return Ok(None);
        }
        let alone = created.is_alone();
        let (dir, name) = names::split(&key);
        let standing = match created.by_count(czxid, join) {
            Some(standing) => standing,
            // Not determined: an entry in a queue with labels lists the queue anyway.
            None if names::label(name).is_some_and(|label| !label.is_empty()) => {
                Standing::Behind(Predecessor { entry: named(dir), first: false, seen: false })
            }
            None => self.stands(&key).await?,
        };
        // Not earlier: if the list fails, the search must find the node, and it skips known nodes.
        self.identity.created(&key);
        let revision = revision(&created.stat);
        let entry = Entry { key, revision, token: revision, crowded: !alone };
        Ok(Some(Joined::Queued {
            entry,
            standing,
            at: created.at,
            alive: Some(renewed_for(self.ttl)),
            alone,
        }))
    }

    /// Finds the node of an earlier attempt to join.
    async fn rejoin(&self, queue: &Queue, ticket: Ticket) -> Result<Option<Joined>> {
        let Some(key) = self.find(queue.dir(), ticket).await? else { return Ok(None) };
        // The time of the node's creation is unknown. The node existed when it was read.
        let client = self.client()?;
        let (at, (read, list)) =
            self.send(|| (client.get_data(&key), client.get_children(queue.dir())));
        let (read, listed) = self.reply(async { tokio::join!(read, list) }).await?;
        let ((_, stat), (children, directory)) = match (read, listed) {
            (Ok(read), Ok(listed)) => (read, listed),
            (Err(zk::Error::NoNode), _) | (_, Err(zk::Error::NoNode)) => return Ok(None),
            (Err(error), _) => return Err(self.failed("reading a node", error)),
            (_, Err(error)) => return Err(self.failed("listing nodes", error)),
        };
        // A node of another session ends with that session.
        if !self.identity.owns(&stat) {
            return Ok(None);
        }
        if !names::is_unique(&key, directory.czxid) {
            self.delete(&key, LeaveRequest::default()).await?;
            return Ok(None);
        }
        self.identity.created(&key);
        let standing = async {
            self.identify().await?;
            self.position(&key, &children).await
        };
        match standing.await {
            Ok(standing) => {
                let entry =
                    Entry { key, revision: revision(&stat), token: revision(&stat), crowded: true };
                Ok(Some(Joined::Queued { entry, standing, at, alive: None, alone: false }))
            }
            Err(error) => {
                self.identity.gone(&key);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        backend::zookeeper::tests::script::{
            Answer, CREATE_CONTAINER, CREATE2, MULTI, NO_AUTH, NO_NODE, QUOTA_EXCEEDED, Server,
        },
        runtime::clock,
    };

    async fn store(server: &Server) -> Arc<ZooKeeperStore> {
        let backend = server.backend();
        let client = backend.connect(Duration::from_secs(10)).await.unwrap();
        ZooKeeperStore::new(&backend, client, clock::now())
    }

    /// Joins on a server with these replies. Returns the error, and whether the ticket is still in
    /// doubt.
    async fn join(script: impl Fn(i32) -> Answer + Send + Sync + 'static) -> (StoreError, bool) {
        let server = Server::start(script).await;
        let store = store(&server).await;
        let (queue, ticket) = (Queue::new("/ns", "a").unwrap(), Ticket::random());
        let error =
            store.join(Joiner { queue: &queue, ticket }, b"", Join::Always).await.unwrap_err();
        let doubtful = store.doubtful().contains(&ticket);
        (error, doubtful)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn refused_join_is_not_in_doubt() {
        // For the node itself, or for its directory.
        for (node, directory) in [(NO_AUTH, NO_NODE), (NO_NODE, NO_AUTH)] {
            let (error, doubtful) = join(move |kind| match kind {
                MULTI => Answer::Refused(node),
                CREATE_CONTAINER => Answer::Refused(directory),
                _ => Answer::Nothing,
            })
            .await;
            assert!(matches!(error, StoreError::Denied(_)), "{error:?}");
            assert!(!doubtful, "a ticket that nobody will ever withdraw");
        }
    }

    /// The write to the directory only serves its reply.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn join_is_retried_without_refused_write() {
        for refused in [NO_AUTH, QUOTA_EXCEEDED] {
            let (error, _) = join(move |kind| match kind {
                MULTI => Answer::SecondRefused(refused),
                CREATE2 => Answer::Refused(NO_AUTH),
                _ => Answer::Nothing,
            })
            .await;
            assert!(matches!(error, StoreError::Denied(_)), "{refused}: {error:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn unanswered_join_is_in_doubt() {
        let (error, doubtful) = join(|_| Answer::HangUp).await;
        assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
        assert!(doubtful);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn requests_with_one_ticket_name_their_nodes_differently() {
        let server = Server::start(|kind| match kind {
            MULTI => Answer::HangUp,
            _ => Answer::Nothing,
        })
        .await;
        let store = store(&server).await;
        let (queue, ticket) = (Queue::new("/ns", "a").unwrap(), Ticket::random());
        for _ in 0..2 {
            let joined = store.join(Joiner { queue: &queue, ticket }, b"", Join::Always).await;
            assert!(matches!(joined, Err(StoreError::Unknown(_))), "{joined:?}");
        }
        let requests = server.transactions();
        let [first, second] = &requests[..] else { panic!("{requests:?}") };
        let data = names::data(ticket, b"");
        for request in [first, second] {
            assert!(request.contains(str::from_utf8(&data).unwrap()), "{request}");
        }
        let path = |request: &str| {
            let (_, rest) = request.split_once("/ns/a/").expect("a node in the queue");
            rest.split_once("-lock-").expect("a number is to follow").0.to_owned()
        };
        assert_ne!(path(first), path(second), "the earlier one may yet be served");
    }
}
