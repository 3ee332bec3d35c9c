//! One side of the comparison, the server or the model, and its replies.

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

/// The permanent watch of each stream: a stream without watches gets no progress replies.
const OWN_WATCH: i64 = 1000;
/// A watch that is created and canceled at once. A server that has created it has processed all
/// earlier requests of the stream.
const MARKER: i64 = 1001;
/// How long a progress reply may take. The server syncs lagging watches every 100 ms.
const PROGRESS_TIMEOUT: Duration = Duration::from_millis(150);

pub(super) struct Side {
    client: Client,
    watches: WatchRequestSender,
    responses: WatchResponseStream,
    /// The events of each watch.
    sent: BTreeMap<i64, Vec<String>>,
    /// The watch ids in use.
    taken: BTreeSet<i64>,
    /// The number of watches that are still to be created or canceled.
    unanswered: usize,
    /// The newest known revision.
    pub(super) revision: i64,
}

async fn newest(client: &Client) -> i64 {
    let read = client.kv_client().get("any", None).await.expect("etcd replies");
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

    /// Formats a reply without the ids and the term, which differ between servers.
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
                    // The server returns them in arbitrary order.
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
                self.advance().await;
                self.cancel(id).await;
                self.settle().await;
                String::new()
            }
        }
    }

    /// Returns the second reply of a stream, because the client consumes the first.
    async fn keep_alive(&mut self, id: i64) -> String {
        let (mut keeper, mut replies) = match self.client.lease_keep_alive(id).await {
            Ok(opened) => opened,
            Err(error) => return format!("{error:?}, ttl: 0"),
        };
        keeper.keep_alive().await.expect("sent");
        let reply = replies.message().await.map(|reply| reply.expect("a reply"));
        self.show(reply, |reply| &mut reply.0.header)
    }

    /// Raises the revision, so that progress replies to earlier requests are recognized by theirs.
    async fn advance(&mut self) {
        let put = self.client.put("advanced", "", None).await.expect("etcd replies");
        self.revision = put.header().expect("a header").revision();
    }

    /// Starts a watch and waits until all past events are sent.
    pub(super) async fn watch(&mut self, key: &str, options: WatchOptions) {
        self.advance().await;
        self.watches.watch(key, Some(options)).await.expect("sent");
        self.unanswered += 1;
        self.settle().await;
    }

    async fn cancel(&mut self, id: i64) {
        self.watches.cancel(id).await.expect("sent");
        self.unanswered += usize::from(self.taken.remove(&id));
    }

    /// Waits until the server reports that all watches are synced.
    async fn settle(&mut self) {
        let (mut in_step, mut is_requested, mut open_requests) = (false, false, 0);
        for _ in 0..100 {
            if !in_step && !is_requested {
                self.watches.request_progress().await.expect("sent");
                (is_requested, open_requests) = (true, open_requests + 1);
            }
            let next = self.responses.message();
            let Ok(response) = timeout(PROGRESS_TIMEOUT, next).await else {
                // The server sends no reply while a watch lags.
                is_requested = false;
                continue;
            };
            let response = response.expect("no error").expect("the stream continues");
            let revision = response.header().map_or(0, ResponseHeader::revision);
            if response.watch_id() != -1 || response.created() {
                self.note(response).await;
            } else if revision >= self.revision {
                (in_step, open_requests) = (true, open_requests - 1);
            }
            if in_step && self.unanswered == 0 {
                if open_requests > 0 {
                    self.pass_marker().await;
                }
                return;
            }
        }
        panic!("watches never sync: {} unanswered", self.unanswered);
    }

    /// Waits until the server has processed all progress requests.
    async fn pass_marker(&mut self) {
        let options = WatchOptions::new().with_watch_id(MARKER);
        self.watches.watch("unused", Some(options)).await.expect("sent");
        self.watches.cancel(MARKER).await.expect("sent");
        loop {
            let response = self.responses.message().await.expect("no error").expect("a response");
            if response.watch_id() == MARKER && response.canceled() {
                return;
            }
        }
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
            // A compacted watch never syncs again.
            self.cancel(id).await;
        } else if response.created() || response.canceled() {
            self.unanswered -= 1;
            if !response.canceled() {
                self.taken.insert(id);
            }
        }
    }

    /// Returns all events that the watches were sent.
    pub(super) async fn sent(&mut self) -> String {
        self.advance().await;
        self.settle().await;
        format!("{:#?}", self.sent)
    }

    /// Removes the leases and keys of the sequence.
    pub(super) async fn clear(&mut self, run: &str) {
        for lease in 1..5 {
            // The lease may not exist.
            let _result = self.client.lease_revoke(lease).await;
        }
        let options = DeleteOptions::new().with_prefix();
        self.client.delete(run, Some(options)).await.expect("etcd replies");
    }
}
