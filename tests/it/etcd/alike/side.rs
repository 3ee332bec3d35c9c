//! One of the two that are compared, and what it replies.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Duration,
};

use etcd_client::{
    Client, CompactionOptions, DeleteOptions, Error, LeaseGrantOptions, LeaseTimeToLiveOptions,
    ResponseHeader, WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream,
    proto::PbResponseHeader,
};
use tokio::time::timeout;

use super::requests::Request;

/// The watch that each stream has: without any, no progress is sent.
const OWN_WATCH: i64 = 1000;
/// How long a reply on progress may take. The server brings watches in step every 100 ms.
const PATIENCE: Duration = Duration::from_millis(150);

pub(super) struct Side {
    client: Client,
    watches: WatchRequestSender,
    responses: WatchResponseStream,
    /// What each watch was sent.
    sent: BTreeMap<i64, Vec<String>>,
    /// The ids that are taken.
    taken: BTreeSet<i64>,
    /// How many watches are yet to be begun or canceled.
    unanswered: usize,
    /// The newest one that is known.
    pub(super) revision: i64,
}

async fn newest(client: &Client) -> i64 {
    let read = client.kv_client().get("any", None).await.expect("etcd answers");
    read.header().expect("a header").revision()
}

impl Side {
    pub(super) async fn open(client: &Client) -> Self {
        let (mut client, revision) = (client.clone(), newest(client).await);
        let options = WatchOptions::new().with_watch_id(OWN_WATCH);
        let stream = client.watch("unused", Some(options)).await.expect("a stream");
        let (watches, responses) = stream.split();
        let (sent, taken) = (BTreeMap::new(), BTreeSet::new());
        let mut side = Self { client, watches, responses, sent, taken, unanswered: 1, revision };
        side.settle().await;
        side
    }

    /// A reply in words: without what two servers never have in common.
    fn show<T: Debug>(
        &mut self,
        reply: Result<T, Error>,
        header: impl FnOnce(&mut T) -> &mut Option<PbResponseHeader>,
    ) -> String {
        match reply {
            Ok(mut reply) => {
                if let Some(header) = header(&mut reply) {
                    (header.cluster_id, header.member_id, header.raft_term) = (0, 0, 0);
                    self.revision = self.revision.max(header.revision);
                }
                format!("{reply:?}")
            }
            Err(Error::GRpcStatus(status)) => format!("{:?} {}", status.code(), status.message()),
            Err(error) => format!("{error:?}"),
        }
    }

    pub(super) async fn reply(&mut self, request: &Request) -> String {
        let mut client = self.client.clone();
        match request.clone() {
            Request::Get(key, options) => {
                let reply = client.get(key, Some(options)).await;
                self.show(reply, |reply| &mut reply.0.header)
            }
            Request::Put(key, value, options) => {
                let reply = client.put(key, value, Some(options)).await;
                self.show(reply, |reply| &mut reply.0.header)
            }
            Request::Delete(key, options) => {
                let reply = client.delete(key, Some(options)).await;
                self.show(reply, |reply| &mut reply.0.header)
            }
            Request::Txn(txn) => {
                let reply = client.txn(txn).await;
                self.show(reply, |reply| &mut reply.0.header)
            }
            Request::Compact(revision) => {
                let options = CompactionOptions::new().with_physical();
                let reply = client.compact(revision, Some(options)).await;
                self.show(reply, |reply| &mut reply.0.header)
            }
            Request::Grant { id, ttl } => {
                let options = LeaseGrantOptions::new().with_id(id);
                let reply = client.lease_grant(ttl, Some(options)).await;
                self.show(reply, |reply| &mut reply.0.header)
            }
            Request::Revoke(id) => {
                let reply = client.lease_revoke(id).await;
                self.show(reply, |reply| &mut reply.0.header)
            }
            Request::KeepAlive(id) => self.keep_alive(id).await,
            Request::TimeToLive { id, keys } => {
                let options = LeaseTimeToLiveOptions::new();
                let options = if keys { options.with_keys() } else { options };
                let mut reply = client.lease_time_to_live(id, Some(options)).await;
                if let Ok(reply) = &mut reply {
                    let (left, granted) = (reply.0.ttl, reply.0.granted_ttl);
                    assert!(left == -1 || (granted - 60..=granted).contains(&left), "{reply:?}");
                    reply.0.ttl = left.min(0);
                    // The server has them in no order.
                    reply.0.keys.sort();
                }
                self.show(reply, |reply| &mut reply.0.header)
            }
            Request::Leases => {
                let reply = client.leases().await;
                self.show(reply, |reply| &mut reply.0.header)
            }
            Request::Watch(key, options) => {
                self.watch(&key, options).await;
                String::new()
            }
            Request::Cancel(id) => {
                self.cancel(id).await;
                self.settle().await;
                String::new()
            }
        }
    }

    /// The second reply of a stream, as the client keeps the first one.
    async fn keep_alive(&mut self, id: i64) -> String {
        let (mut keeper, mut replies) = match self.client.lease_keep_alive(id).await {
            Ok(opened) => opened,
            Err(error) => return format!("{error:?}, ttl: 0"),
        };
        keeper.keep_alive().await.expect("sent");
        let reply = replies.message().await.map(|reply| reply.expect("a reply"));
        self.show(reply, |reply| &mut reply.0.header)
    }

    /// Begins to watch, and waits until all that has happened is sent.
    pub(super) async fn watch(&mut self, key: &str, options: WatchOptions) {
        self.watches.watch(key, Some(options)).await.expect("sent");
        self.unanswered += 1;
        self.settle().await;
    }

    async fn cancel(&mut self, id: i64) {
        self.watches.cancel(id).await.expect("sent");
        self.unanswered += usize::from(self.taken.remove(&id));
    }

    /// Waits until the server says that all watches are in step with it.
    async fn settle(&mut self) {
        let (mut in_step, mut is_requested) = (false, false);
        for _ in 0..100 {
            if !in_step && !is_requested {
                self.watches.request_progress().await.expect("sent");
                is_requested = true;
            }
            let next = self.responses.message();
            let Ok(response) = timeout(PATIENCE, next).await else {
                // There is no reply if one was not in step.
                is_requested = false;
                continue;
            };
            let response = response.expect("no error").expect("it goes on");
            let revision = response.header().map_or(0, ResponseHeader::revision);
            if response.watch_id() == -1 && !response.created() {
                in_step |= revision >= self.revision;
            } else {
                self.note(response).await;
            }
            if in_step && self.unanswered == 0 {
                return;
            }
        }
        panic!("watches are never in step: {} unanswered", self.unanswered);
    }

    async fn note(&mut self, response: WatchResponse) {
        let (id, revision) =
            (response.watch_id(), response.header().map_or(0, ResponseHeader::revision));
        let of = self.sent.entry(id).or_default();
        if response.created() || response.canceled() {
            of.push(format!(
                "created {} canceled {} at {revision}, compacted {}: {}",
                response.created(),
                response.canceled(),
                response.compact_revision(),
                response.cancel_reason(),
            ));
        }
        of.extend(response.events().iter().map(|event| format!("{revision}: {:?}", event.0)));
        if response.compact_revision() != 0 {
            // It is never in step again.
            self.cancel(id).await;
        } else if response.created() || response.canceled() {
            self.unanswered -= 1;
            if !response.canceled() {
                self.taken.insert(id);
            }
        }
    }

    /// All that its watches were sent.
    pub(super) async fn sent(&mut self) -> String {
        self.revision = newest(&self.client).await;
        self.settle().await;
        format!("{:#?}", self.sent)
    }

    /// Leaves nothing behind.
    pub(super) async fn clear(&mut self, run: &str) {
        for lease in 1..5 {
            // It may not be there.
            let _gone = self.client.lease_revoke(lease).await;
        }
        let options = DeleteOptions::new().with_prefix();
        self.client.delete(run, Some(options)).await.expect("etcd answers");
    }
}
